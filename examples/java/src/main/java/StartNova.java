import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import io.grpc.Status;
import io.temporal.api.enums.v1.WorkflowIdConflictPolicy;
import io.temporal.api.enums.v1.WorkflowIdReusePolicy;
import io.temporal.client.UpdateOptions;
import io.temporal.client.WorkflowClient;
import io.temporal.client.WorkflowException;
import io.temporal.client.WorkflowOptions;
import io.temporal.client.WorkflowStub;
import io.temporal.client.WorkflowUpdateStage;
import io.temporal.envconfig.ClientConfigProfile;
import io.temporal.failure.ApplicationFailure;
import io.temporal.failure.TemporalException;
import io.temporal.serviceclient.WorkflowServiceStubs;
import java.time.Instant;
import java.util.Locale;
import java.util.Map;

/**
 * Starts the workflows of temporal-nova by their type names.
 *
 * <pre>
 * mvn -q compile exec:java -Dexec.args="create order-4711 web-1 FLAVOR_ID IMAGE_ID"
 * mvn -q compile exec:java -Dexec.args="recover INSTANCE_ID"
 * </pre>
 *
 * TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, … say where Temporal is, as for the temporal command.
 */
public final class StartNova {
  private static final String TASK_QUEUE = System.getenv().getOrDefault("TEMPORAL_TASK_QUEUE", "nova");

  record CreateInput(Map<String, Object> server, String timeout, String onFailure) {}

  @JsonIgnoreProperties(ignoreUnknown = true)
  record CreateResult(String serverId, String status, Map<String, Object> addresses) {}

  record Notification(String event, String generatedTime) {}

  record RecoverInput(String instanceId, Notification notification) {}

  @JsonIgnoreProperties(ignoreUnknown = true)
  record RecoverResult(String outcome, String reason, String message) {}

  /** Safe to repeat: one workflow id is one server, until a creation has failed. */
  static void create(WorkflowClient client, String workflowId, String name, String flavor, String image) {
    WorkflowOptions options =
        WorkflowOptions.newBuilder()
            .setWorkflowId(workflowId)
            .setTaskQueue(TASK_QUEUE)
            .setWorkflowIdConflictPolicy(WorkflowIdConflictPolicy.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING)
            .setWorkflowIdReusePolicy(WorkflowIdReusePolicy.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY)
            .setStaticSummary("Create server " + name)
            .build();
    CreateInput input =
        new CreateInput(
            Map.of("name", name, "flavorRef", flavor, "imageRef", image, "networks", "auto"), "30m", "delete");
    UpdateOptions<String> serverId =
        UpdateOptions.newBuilder(String.class)
            .setUpdateName("serverId")
            .setWaitForStage(WorkflowUpdateStage.COMPLETED)
            .build();
    try {
      String id =
          client
              .newUntypedWorkflowStub("CreateServerWorkflow", options)
              .executeUpdateWithStart(serverId, new Object[] {}, new Object[] {input});
      System.out.printf("%s has the id %s%n", name, id);
    } catch (WorkflowException e) {
      if (Status.fromThrowable(e).getCode() != Status.Code.ALREADY_EXISTS) throw e;
      System.out.printf("%s was created before%n", name);
    }
    CreateResult result = client.newUntypedWorkflowStub(workflowId).getResult(CreateResult.class);
    System.out.printf("%s is %s, addresses %s%n", result.serverId, result.status, result.addresses);
  }

  /** Joins a recovery of the instance that is under way already. */
  static void recover(WorkflowClient client, String instanceId) {
    WorkflowOptions options =
        WorkflowOptions.newBuilder()
            .setWorkflowId("recover-instance-" + instanceId.toLowerCase(Locale.ROOT))
            .setTaskQueue(TASK_QUEUE)
            .setStaticSummary("Recover instance " + instanceId)
            .build();
    Notification notification = new Notification("LIFECYCLE", Instant.now().toString());
    WorkflowStub workflow = client.newUntypedWorkflowStub("RecoverInstanceWorkflow", options);
    workflow.signalWithStart(
        "notified", new Object[] {notification}, new Object[] {new RecoverInput(instanceId, notification)});
    RecoverResult result = workflow.getResult(RecoverResult.class);
    System.out.printf("%s, %s: %s%n", result.outcome, result.reason, result.message);
  }

  public static void main(String[] args) throws Exception {
    ClientConfigProfile profile = ClientConfigProfile.load();
    WorkflowServiceStubs service = WorkflowServiceStubs.newServiceStubs(profile.toWorkflowServiceStubsOptions());
    WorkflowClient client = WorkflowClient.newInstance(service, profile.toWorkflowClientOptions());
    try {
      switch (args[0]) {
        case "create" -> create(client, args[1], args[2], args[3], args[4]);
        case "recover" -> recover(client, args[1]);
        default -> throw new IllegalArgumentException("create or recover, not " + args[0]);
      }
    } catch (TemporalException e) {
      if (!(e.getCause() instanceof ApplicationFailure failure)) throw e;
      System.err.printf("%s: %s%n", failure.getType(), failure.getOriginalMessage());
      System.exit(1);
    } finally {
      service.shutdown();
    }
  }
}
