// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodenetwork

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/cmd/aliothctl/options"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/nmstate/engine"
	"github.com/alioth-net/alioth/cnid/nmstate/handler"
	"github.com/alioth-net/alioth/store/client/kube"
)

// handling is how the state handler runs without the daemon.
type handling struct {
	node, kubeconfig string
	once             bool
	every            time.Duration
}

func (o *stateOptions) handleCommand() *cobra.Command {
	var h handling
	cmd := &cobra.Command{
		Use:   "handle",
		Short: "Lead this node's network to its NodeNetworkState, and report its state",
		Long: `Lead the network of the node on which it runs, as root, to the desired state of
its NodeNetworkState, and report the current state. The command creates a missing
object. The daemon does so continuously where nodeNetworkState.enabled of the chart is
true; this command is for nodes without it.

It runs until it is interrupted. With --once it makes one pass, and its exit status
is not 0 if the node does not have the desired state then.`,
		Example: `  aliothctl state handle --once --node worker-1
  aliothctl state handle --every 10s`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.handle(cmd, h) },
	}
	flags := cmd.Flags()
	flags.StringVar(
		&h.node,
		"node",
		os.Getenv("NODE_NAME"),
		"name of this node's Node object (environment: NODE_NAME); default: the host's name",
	)
	flags.BoolVar(&h.once, "once", false, "make one pass")
	flags.DurationVar(&h.every, "every", 5*time.Second, "time between two passes")
	options.AddKubeconfig(cmd, &h.kubeconfig)
	return cmd
}

func (o *stateOptions) handle(cmd *cobra.Command, h handling) (err error) {
	if h.every <= 0 {
		return fmt.Errorf("--every %s: want a time between two passes, for example 5s", h.every)
	}
	if h.node == "" {
		if h.node, err = os.Hostname(); err != nil {
			return fmt.Errorf("find the node's name (give --node): %w", err)
		}
	}
	config, err := options.RESTConfig(h.kubeconfig, cniapi.DefaultSocket)
	if err != nil {
		return err
	}
	api, err := stateClient(config)
	if err != nil {
		return err
	}
	o.apiServer = handler.APIServer(config.Host)
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	return o.with(cmd.ErrOrStderr(), func(e *engine.Engine) error {
		if h.once {
			return handleState(cmd.Context(), e, api, h, log)
		}
		return withDHCP(cmd.Context(), e, func(ctx context.Context) error { return handleState(ctx, e, api, h, log) })
	})
}

// withDHCP calls f while the DHCP clients of the node run.
func withDHCP(ctx context.Context, e *engine.Engine, f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		served <- e.ServeDHCP(ctx, nil)
		cancel()
	}()
	err := f(ctx)
	cancel()
	if failure := <-served; failure != nil && !errors.Is(failure, context.Canceled) {
		err = errors.Join(err, failure)
	}
	return err
}

func handleState(ctx context.Context, e handler.Engine, api handler.API, h handling, log *slog.Logger) error {
	states := handler.New(handler.Config{
		Node: h.node, API: api, Engine: e, Wanted: handler.Ask(api, h.node), Poll: h.every, Timeout: engine.DefaultTimeout,
		Log: log,
	})
	if h.once {
		_, err := states.Pass(ctx)
		return err
	}
	states.Run(ctx)
	return nil
}

// stateClient returns a client for the objects that the state handler reads and writes.
func stateClient(config *rest.Config) (*kube.Client, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("register API kinds: %w", err)
	}
	return kube.New(config, scheme)
}
