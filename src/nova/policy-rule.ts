/** Nova's 403 names the rule of its policy that was missing; this says what to do about it. */

/** `PolicyNotAuthorized` of `nova/exception.py`. */
const NOT_AUTHORIZED = /^Policy doesn't allow (\S+) to be performed/;

/**
 * Rules whose default is an administrator's, of those that this project's requests can meet (`nova/policies/*.py` of
 * Nova 26 to 31; the last three depend on what a creation asks for).
 */
const ADMINISTRATORS = new Set([
  'os_compute_api:os-admin-actions:reset_state',
  'os_compute_api:servers:create:forced_host',
  'compute:servers:create:requested_destination',
]);

/** Rules whose default is the role reader. */
const READERS = /:(?:index|detail|show|list)$/;

/** The rule that a refusal names, such as 'os_compute_api:servers:stop'. */
export function policyRuleOf(words: string): string | undefined {
  return NOT_AUTHORIZED.exec(words)?.[1];
}

/** Who has it by Nova's defaults, and how to get it: a sentence. */
export function adviceOn(rule: string): string {
  if (ADMINISTRATORS.has(rule)) {
    return "By Nova's defaults that is an administrator's: log in as one, or allow the rule in Nova's policy.yaml.";
  }
  const role = READERS.test(rule) ? 'reader' : 'member';
  return (
    `By Nova's defaults that takes the role ${role} in the project: give it to this service's user, ` +
    "or allow the rule in Nova's policy.yaml."
  );
}
