/** Metrics of what a client of OpenStack sends, and the buckets of all histograms of this package. */
import type { MetricMeter } from '@temporalio/common';
import type { EndedRequest } from './nova';

/**
 * Upper bounds in seconds, for the `histogramBucketOverrides` of Temporal's runtime, whose default ends at 10,000 and is
 * meant for milliseconds. Set by `npm run worker`; a process that installs a runtime of its own passes them on.
 *
 * @example
 * Runtime.install({
 *   telemetryOptions: {
 *     metrics: { prometheus: { bindAddress: '127.0.0.1:9464', histogramBucketOverrides: { ...HISTOGRAM_BUCKETS } } },
 *   },
 * });
 */
export const HISTOGRAM_BUCKETS: Readonly<Record<string, number[]>> = {
  temporal_nova_request_duration_seconds: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
  temporal_nova_time_to_active_seconds: [1, 2.5, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600],
};

/**
 * Counts and times the requests of one client: for `createComputeClient(config, { onRequest })`.
 *
 * @param meter `Runtime.instance().metricMeter`, once the runtime is installed
 * @param cloud the value of the label `cloud`
 */
export function requestMetrics(meter: MetricMeter, cloud = 'default'): (request: EndedRequest) => void {
  const duration = meter.createHistogram(
    'temporal_nova_request_duration_seconds',
    'float',
    undefined, // the name has it: an exporter with `unitSuffix` would append another one
    'Requests to OpenStack, from the connection to the end of the answer.',
  );
  return ({ seconds, ...labels }) => duration.record(seconds, { ...labels, cloud });
}
