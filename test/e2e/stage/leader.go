// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
)

// KillLeader kills the operator that holds the lease, and returns the lease's
// holder.
func (e *Env) KillLeader(ctx context.Context) (string, error) {
	holder, err := e.Leader(ctx)
	if err != nil {
		return "", err
	}
	pods, err := e.Lab.Client().
		CoreV1().
		Pods(cluster.SystemNamespace).
		List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=operator"})
	if err != nil {
		return "", err
	}
	for _, pod := range pods.Items {
		// The holder is <host name>_<random text>, and the operator is on the
		// host's network.
		if strings.HasPrefix(holder, pod.Spec.NodeName+"_") && pod.DeletionTimestamp == nil {
			return holder, e.Lab.SignalContainer(ctx, pod.Namespace, pod.Name, "", unix.SIGKILL)
		}
	}
	return "", fmt.Errorf("no operator's pod is on the node of the leader %q", holder)
}

// Leader returns the holder of the operators' lease.
func (e *Env) Leader(ctx context.Context) (string, error) {
	lease, err := e.Lab.Client().
		CoordinationV1().
		Leases(cluster.SystemNamespace).
		Get(ctx, "alioth-operator", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return "", fmt.Errorf("no operator holds the lease")
	}
	return *lease.Spec.HolderIdentity, nil
}

// AwaitOtherLeader waits until another operator leads than before.
func (e *Env) AwaitOtherLeader(ctx context.Context, before string) error {
	return scene.Until(ctx, "another operator to lead", func(ctx context.Context) (bool, string, error) {
		now, err := e.Leader(ctx)
		return err == nil && now != before, now, err
	})
}
