// COUNT servers at once with gophercloud's servers.Create and servers.WaitForStatus, a goroutine each on one client.
//
// Prints a line of JSON for each server when its wait has returned. The cloud is that of OS_*. Out of the box
// gophercloud repeats nothing; with PEERS_RETRY=1 it has the hooks that its users write for that.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
)

const (
	timeout     = time.Hour
	maxAttempts = 10
)

type line struct {
	Name  string  `json:"name"`
	ID    string  `json:"id,omitempty"`
	Error string  `json:"error,omitempty"`
	At    float64 `json:"at"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	prefix, flavor, image, network := os.Args[1], os.Args[3], os.Args[4], os.Args[5]
	count, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	compute, err := client(ctx)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	var output sync.Mutex
	for i := range count {
		all.Add(1)
		go func() {
			defer all.Done()
			said := line{Name: fmt.Sprintf("%s-%d", prefix, i)}
			id, err := create(ctx, compute, servers.CreateOpts{
				Name: said.Name, FlavorRef: flavor, ImageRef: image, Networks: []servers.Network{{UUID: network}},
			})
			said.At = float64(time.Now().UnixMicro()) / 1000
			if err != nil {
				said.Error = err.Error()
			} else {
				said.ID = id
			}
			output.Lock()
			defer output.Unlock()
			_ = json.NewEncoder(os.Stdout).Encode(said)
		}()
	}
	all.Wait()
	return nil
}

func create(ctx context.Context, compute *gophercloud.ServiceClient, opts servers.CreateOpts) (string, error) {
	server, err := servers.Create(ctx, compute, opts, nil).Extract()
	if err != nil {
		return "", err
	}
	return server.ID, servers.WaitForStatus(ctx, compute, server.ID, "ACTIVE")
}

func client(ctx context.Context) (*gophercloud.ServiceClient, error) {
	auth, err := openstack.AuthOptionsFromEnv()
	if err != nil {
		return nil, err
	}
	// Else a token that expires ends every wait.
	auth.AllowReauth = true
	provider, err := openstack.NewClient(auth.IdentityEndpoint)
	if err != nil {
		return nil, err
	}
	if os.Getenv("PEERS_RETRY") == "1" {
		provider.RetryBackoffFunc = backOff
		provider.RetryFunc = retry
	}
	if err := openstack.Authenticate(ctx, provider, auth); err != nil {
		return nil, err
	}
	return openstack.NewComputeV2(provider, gophercloud.EndpointOpts{Region: os.Getenv("OS_REGION_NAME")})
}

// backOff waits as long as the Retry-After of a 429 says.
func backOff(ctx context.Context, answer *gophercloud.ErrUnexpectedResponseCode, err error, attempt uint) error {
	seconds, parseError := strconv.Atoi(answer.ResponseHeader.Get("Retry-After"))
	if parseError != nil {
		seconds = 1
	}
	return pause(ctx, time.Duration(seconds)*time.Second, err, attempt)
}

// retry repeats what can do no harm: GETs that had no answer, or one of 502, 503 and 504.
func retry(ctx context.Context, method, _ string, _ *gophercloud.RequestOpts, err error, attempt uint) error {
	var answer gophercloud.ErrUnexpectedResponseCode
	isAnswered := errors.As(err, &answer)
	isAway := answer.Actual == http.StatusBadGateway || answer.Actual == http.StatusServiceUnavailable ||
		answer.Actual == http.StatusGatewayTimeout
	if method != http.MethodGet || (isAnswered && !isAway) {
		return err
	}
	return pause(ctx, time.Duration(attempt)*time.Second, err, attempt)
}

func pause(ctx context.Context, wait time.Duration, err error, attempt uint) error {
	if attempt > maxAttempts {
		return err
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
