// As many write it who host the workflows of several packages.
module.exports = { ...require('temporal-nova/workflows'), ...require('./own.cjs') };
