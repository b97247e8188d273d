import eslint from '@eslint/js';
import tseslint from 'typescript-eslint';

/** What workflow code may import: the sandbox has no I/O, so axios and Node's modules fail there at run time. */
const forWorkflows = {
  patterns: [
    { group: ['axios', 'node:*', 'fs', 'path', 'crypto', 'http', 'https'], message: 'Workflow code does no I/O.' },
    { group: ['**/nova/*', '**/simulator/*'], allowTypeImports: true, message: 'Workflow code takes types only.' },
    {
      group: ['**/activities', '**/activities/*'],
      allowTypeImports: true,
      message: 'Activities are imported as types.',
    },
    {
      group: ['@temporalio/*', '!@temporalio/workflow', '!@temporalio/common', '!@temporalio/common/*'],
      allowTypeImports: true,
      message: 'Only @temporalio/workflow and @temporalio/common run in a workflow.',
    },
  ],
};

export default tseslint.config(
  { ignores: ['lib/', 'node_modules/', 'coverage/', 'docs-api/'] },
  eslint.configs.recommended,
  {
    files: ['**/*.ts'],
    extends: [...tseslint.configs.recommended],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': 'error',
      '@typescript-eslint/await-thenable': 'error',
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_' }],
    },
  },
  {
    files: ['src/workflows/**/*.ts'],
    rules: { '@typescript-eslint/no-restricted-imports': ['error', forWorkflows] },
  },
  {
    files: ['src/policy/**/*.ts'],
    rules: {
      '@typescript-eslint/no-restricted-imports': [
        'error',
        { patterns: [{ regex: '^(?!\\./)', message: 'Policy is pure: it imports its own files only.' }] },
      ],
      'no-restricted-globals': ['error', 'Date', 'setTimeout', 'fetch', 'process'],
    },
  },
  {
    files: ['src/nova/**/*.ts'],
    rules: {
      '@typescript-eslint/no-restricted-imports': [
        'error',
        { patterns: [{ group: ['@temporalio/*', '**/workflows/*', '**/activities/*', '**/simulator/*'] }] },
      ],
    },
  },
  {
    files: ['**/*.{js,mjs,cjs}'],
    languageOptions: {
      globals: {
        module: 'writable',
        require: 'readonly',
        process: 'readonly',
        __dirname: 'readonly',
        console: 'readonly',
      },
    },
  },
);
