// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/cluster/release"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/soak"
)

// rounds is how often the version changes in each direction, enough how many pods start on
// each node while the daemons are older than the operator: more than enough periods of
// everything that the lab's operator and daemons do from time to time pass meanwhile.
const rounds, enough = 3, 60

// TestUpgrade_LeaderKilled_Unnoticed kills the leading operator in the middle of each change.
func TestUpgrade_LeaderKilled_Unnoticed(t *testing.T) {
	soak.Only(t)
	e := start(t)
	w := e.town(t)
	for round := range 2 * rounds {
		version := e.other(t)
		t.Run(fmt.Sprintf("%d: to %s", round+1, e.nameOf(version)), func(t *testing.T) {
			w.expectUnnoticed(t, func(ctx context.Context) error { return w.installAndKill(ctx, version) })
			e.expectVersion(t, version)
		})
	}
}

// installAndKill changes the version, and kills the leader when the first daemon is replaced.
func (w *town) installAndKill(ctx context.Context, v release.Version) error {
	before, err := w.daemons(ctx)
	if err != nil {
		return err
	}
	installed := make(chan error, 1)
	go func() { installed <- w.Lab.Install(ctx, v) }()
	err = scene.Until(ctx, "the first daemon to be replaced", func(ctx context.Context) (bool, string, error) {
		now, err := w.daemons(ctx)
		if err != nil {
			return false, "", err
		}
		rolling := now.Generation > before.Generation && now.Status.ObservedGeneration == now.Generation
		return rolling && now.Status.UpdatedNumberScheduled > 0, fmt.Sprintf("%+v", now.Status), nil
	})
	if err == nil {
		// The leader may end just now: another one leads then.
		err = scene.Until(ctx, "a leader to be killed", func(ctx context.Context) (bool, string, error) {
			_, err := w.KillLeader(ctx)
			return err == nil, fmt.Sprint(err), nil
		})
	}
	return errors.Join(err, <-installed)
}

// TestUpgrade_OperatorAlone_OldDaemonsWork upgrades the operator alone, lets the cluster live on,
// with restarts of the old daemons too, and then upgrades node after node.
func TestUpgrade_OperatorAlone_OldDaemonsWork(t *testing.T) {
	soak.Only(t)
	e := start(t)
	if err := e.Lab.Install(within(t), e.released); err != nil {
		t.Fatal(err)
	}
	w := e.town(t)
	t.Run("the operator is upgraded", func(t *testing.T) {
		w.expectUnnoticed(t, func(ctx context.Context) error {
			// Helm would wait for the daemons.
			err := w.Lab.Install(ctx, e.present, "--set", "daemon.updateStrategy=OnDelete", "--wait=hookOnly")
			return errors.Join(err, w.awaitImages(ctx, "operator", e.present))
		})
		if err := e.awaitImages(within(t), "daemon", e.released); err != nil {
			t.Error(err)
		}
	})
	t.Run("old daemons go on, through their own restarts too", func(t *testing.T) {
		w.expectUnnoticed(t, func(ctx context.Context) error {
			var failed error
			for _, node := range e.Lab.Nodes() {
				failed = errors.Join(failed, w.restartDaemon(ctx, node.Name))
			}
			return errors.Join(failed, w.liveOn(ctx))
		})
	})
	for _, node := range e.Lab.Nodes() {
		t.Run("the daemon of "+node.Name+" is upgraded", func(t *testing.T) {
			w.expectUnnoticed(t, func(ctx context.Context) error { return w.replaceDaemon(ctx, node.Name) })
		})
	}
	e.expectVersion(t, e.present)
}

// liveOn starts pods on every node, one after the other.
func (w *town) liveOn(ctx context.Context) error {
	var failed error
	for _, node := range w.Lab.Nodes() {
		a := &arrivals{stop: make(chan struct{}), limit: enough}
		failed = errors.Join(failed, w.receive(ctx, a, node))
	}
	return failed
}

// restartDaemon kills the daemon of a node, and waits until it is back.
func (w *town) restartDaemon(ctx context.Context, node string) error {
	before, err := w.Lab.DaemonPod(ctx, node)
	if err != nil {
		return err
	}
	if err := w.Lab.KillDaemon(ctx, node); err != nil {
		return err
	}
	return scene.Until(ctx, "the daemon on "+node+" to be back", func(ctx context.Context) (bool, string, error) {
		now := &corev1.Pod{}
		err := w.Client.Get(ctx, client.ObjectKeyFromObject(before), now)
		if err != nil || len(now.Status.ContainerStatuses) == 0 {
			return false, "", err
		}
		restarts := now.Status.ContainerStatuses[0].RestartCount
		return restarts > before.Status.ContainerStatuses[0].RestartCount && scene.IsReady(now), fmt.Sprintf("%d restarts", restarts), nil
	})
}

// replaceDaemon deletes the daemon of a node, and waits until another one is Ready.
func (w *town) replaceDaemon(ctx context.Context, node string) error {
	before, err := w.Lab.DaemonPod(ctx, node)
	if err != nil {
		return err
	}
	if err := w.Client.Delete(ctx, before.DeepCopy()); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return scene.Until(ctx, "another daemon on "+node, func(ctx context.Context) (bool, string, error) {
		// Between the two the node has no daemon, which gives an error.
		now, err := w.Lab.DaemonPod(ctx, node)
		return err == nil && now.UID != before.UID && scene.IsReady(now), fmt.Sprint(err), nil
	})
}
