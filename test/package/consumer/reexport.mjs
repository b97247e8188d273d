// As many write it who host the workflows of several packages.
export * from 'temporal-nova/workflows';
export * from './own.mjs';
