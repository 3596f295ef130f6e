// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package uninstall removes Alioth from a cluster. It refuses while pods use Alioth;
// otherwise it cleans every node and removes the operator's finalizers.
//
// It runs as a hook before the chart's own objects are deleted. If a step fails, the
// earlier ones are undone: operator and daemons run again, and the daemons restore
// the nodes that were cleaned already.
package uninstall

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/kinds"
)

// ErrInUse is wrapped when pods still have addresses.
var ErrInUse = errors.New("pods still use Alioth's network")

const (
	// nameLabel distinguishes the chart's objects from others of the namespace, componentLabel
	// its workloads. Their names depend on its values.
	nameLabel, chartName = "app.kubernetes.io/name", "alioth"
	componentLabel       = "app.kubernetes.io/component"
	componentOperator    = "operator"
	componentDaemon      = "daemon"
	componentCleanup     = "cleanup"

	pollEvery = 500 * time.Millisecond
	// undoWithin limits the undo, which also runs after a timeout.
	undoWithin = 30 * time.Second
)

// Config describes the installation to remove.
type Config struct {
	// Namespace is where the chart is installed.
	Namespace string
	// Timeout limits the whole run.
	Timeout time.Duration
}

// uninstaller carries out the steps.
type uninstaller struct {
	client    client.Client
	namespace string
	log       *slog.Logger
}

// AddToScheme registers the kinds that Run reads and writes.
func AddToScheme(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, kinds.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("register API kinds: %w", err)
		}
	}
	return nil
}

// Run removes Alioth from the cluster. Its error wraps ErrInUse when pods still have addresses.
// After an error nothing has changed. Run accepts objects that are already gone, so it can be
// repeated.
func Run(ctx context.Context, c client.Client, cfg Config, log *slog.Logger) (err error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	u := &uninstaller{client: c, namespace: cfg.Namespace, log: log}
	if err := u.refuseInUse(ctx); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, u.undo(ctx))
		}
	}()
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"stop the operators", u.stopOperators},
		// From here on no pod gets a new address.
		{"look for pods that were created in the meantime", u.refuseInUse},
		{"stop the daemons", u.stopDaemons},
		{"clean the nodes", u.cleanNodes},
		{"release addresses", u.releaseAddresses},
		{"delete the nodes' answers", u.forgetNodes},
		{"delete the numbers of label sets", u.endIdentities},
		{"remove finalizers", u.dropFinalizers},
	} {
		log.Info("next step", "step", step.name)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// undo lets operators and daemons run again.
func (u *uninstaller) undo(ctx context.Context) error {
	u.log.Info("rolling back: operators and daemons run again")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoWithin)
	defer cancel()
	err := errors.Join(u.deleteCleanupPods(ctx), u.retireDaemons(ctx, false), u.scaleOperators(ctx, 1))
	if err != nil {
		return fmt.Errorf("undo (roll the release back with helm, or uninstall again): %w", err)
	}
	return nil
}

// refuseInUse returns ErrInUse with some of the pods that have addresses.
func (u *uninstaller) refuseInUse(ctx context.Context) error {
	var addresses v1alpha1.AddressList
	if err := u.client.List(ctx, &addresses); ignoreMissingKind(err) != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	var claims v1alpha1.AttachmentClaimList
	if err := u.client.List(ctx, &claims); ignoreMissingKind(err) != nil {
		return fmt.Errorf("list attachment claims: %w", err)
	}
	var pods corev1.PodList
	if err := u.client.List(ctx, &pods); err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	if users := users(addresses.Items, claims.Items, pods.Items); len(users) > 0 {
		return fmt.Errorf("%w: %s; delete them first", ErrInUse, summarize(users))
	}
	return nil
}

// until repeats check until it waits for nothing. The error of a timeout names the objects that it
// waited for.
func until(ctx context.Context, check func(context.Context) (waitingFor []string, err error)) error {
	var left []string
	err := wait.PollUntilContextCancel(ctx, pollEvery, true, func(ctx context.Context) (bool, error) {
		now, err := check(ctx)
		if err == nil || ctx.Err() == nil {
			left = now // a check that the end of ctx interrupts knows nothing new
		}
		return err == nil && len(left) == 0, err
	})
	if err != nil && len(left) > 0 {
		return fmt.Errorf("wait for %s: %w", summarize(left), err)
	}
	return err
}
