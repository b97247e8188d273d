// Starts the workflows of temporal-nova by their type names.
//
//	go run . create order-4711 web-1 FLAVOR_ID IMAGE_ID
//	go run . recover INSTANCE_ID
//
// TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, … say where Temporal is, as for the temporal command.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/temporal"
)

type createInput struct {
	Server    map[string]any `json:"server"` // Nova's own, of POST /servers
	Timeout   string         `json:"timeout,omitempty"`
	OnFailure string         `json:"onFailure,omitempty"`
}

type createResult struct {
	ServerID  string         `json:"serverId"`
	Status    string         `json:"status"`
	Addresses map[string]any `json:"addresses"`
}

type notification struct {
	Event         string    `json:"event"`
	GeneratedTime time.Time `json:"generatedTime"`
}

type recoverInput struct {
	InstanceID   string       `json:"instanceId"`
	Notification notification `json:"notification"`
}

type recoverResult struct {
	Outcome string `json:"outcome"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// create is safe to repeat: one workflow id is one server, until a creation has failed.
func create(ctx context.Context, c client.Client, workflowID, name, flavor, image string) error {
	start := c.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
		ID:                       workflowID,
		TaskQueue:                taskQueue(),
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
		StaticSummary:            "Create server " + name,
	}, "CreateServerWorkflow", createInput{
		Server:    map[string]any{"name": name, "flavorRef": flavor, "imageRef": image, "networks": "auto"},
		Timeout:   "30m",
		OnFailure: "delete",
	})
	update, err := c.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: start,
		UpdateOptions: client.UpdateWorkflowOptions{
			UpdateName:   "serverId",
			WaitForStage: client.WorkflowUpdateStageCompleted,
		},
	})
	var alreadyStarted *serviceerror.WorkflowExecutionAlreadyStarted
	switch {
	case err == nil:
		var serverID string
		if err := update.Get(ctx, &serverID); err != nil {
			return err
		}
		fmt.Printf("%s has the id %s\n", name, serverID)
	case errors.As(err, &alreadyStarted):
		fmt.Println(name, "was created before")
	default:
		return err
	}
	var result createResult
	if err := c.GetWorkflow(ctx, workflowID, "").Get(ctx, &result); err != nil {
		return err
	}
	fmt.Printf("%s is %s, addresses %v\n", result.ServerID, result.Status, result.Addresses)
	return nil
}

// recoverInstance joins a recovery of the instance that is under way already.
func recoverInstance(ctx context.Context, c client.Client, instanceID string) error {
	why := notification{Event: "LIFECYCLE", GeneratedTime: time.Now().UTC()}
	id := "recover-instance-" + strings.ToLower(instanceID)
	run, err := c.SignalWithStartWorkflow(ctx, id, "notified", why, client.StartWorkflowOptions{
		TaskQueue:     taskQueue(),
		StaticSummary: "Recover instance " + instanceID,
	}, "RecoverInstanceWorkflow", recoverInput{InstanceID: instanceID, Notification: why})
	if err != nil {
		return err
	}
	var result recoverResult
	if err := run.Get(ctx, &result); err != nil {
		return err
	}
	fmt.Printf("%s, %s: %s\n", result.Outcome, result.Reason, result.Message)
	return nil
}

func taskQueue() string {
	if queue := os.Getenv("TEMPORAL_TASK_QUEUE"); queue != "" {
		return queue
	}
	return "nova"
}

func run(ctx context.Context, args []string) error {
	c, err := client.DialContext(ctx, envconfig.MustLoadDefaultClientOptions())
	if err != nil {
		return err
	}
	defer c.Close()
	switch {
	case len(args) == 5 && args[0] == "create":
		return create(ctx, c, args[1], args[2], args[3], args[4])
	case len(args) == 2 && args[0] == "recover":
		return recoverInstance(ctx, c, args[1])
	default:
		return errors.New("create WORKFLOW_ID NAME FLAVOR_ID IMAGE_ID, or recover INSTANCE_ID")
	}
}

func main() {
	log.SetFlags(0)
	err := run(context.Background(), os.Args[1:])
	var failure *temporal.ApplicationError
	if errors.As(err, &failure) {
		log.Fatalf("%s: %s", failure.Type(), failure.Message())
	}
	if err != nil {
		log.Fatal(err)
	}
}
