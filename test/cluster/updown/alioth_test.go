// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package updown

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/cluster/objects"
	"github.com/alioth-net/alioth/test/waits"
)

// testKillDaemon kills, freezes and resumes the daemon of one node.
func testKillDaemon(t *testing.T, c *cluster.Cluster) {
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(time.Minute))
	defer cancel()
	nodeName := c.Nodes()[0].Name
	if err := c.StopDaemon(ctx, nodeName); err != nil {
		t.Fatal(err)
	}
	if err := c.ResumeDaemon(ctx, nodeName); err != nil {
		t.Fatal(err)
	}
	before, err := c.DaemonPod(ctx, nodeName)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.KillDaemon(ctx, nodeName); err != nil {
		t.Fatal(err)
	}
	err = objects.WaitFor(ctx, "the daemon was started again", func(ctx context.Context) error {
		pod, err := c.DaemonPod(ctx, nodeName)
		if err != nil {
			return err
		}
		was, is := before.Status.ContainerStatuses[0].RestartCount, pod.Status.ContainerStatuses[0].RestartCount
		if pod.UID != before.UID || is != was+1 {
			return fmt.Errorf("%d restarts, %d before", is, was)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func testPodNetNS(t *testing.T, c *cluster.Cluster) {
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(time.Minute))
	defer cancel()
	pods, err := c.WaitPodsReady(ctx, "kube-system", "k8s-app=kube-dns", 2)
	if err != nil {
		t.Fatal(err)
	}
	path, err := c.PodNetNS(ctx, pods[0].Namespace, pods[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	pod, ok := inodeOf(path)
	node, _ := inodeOf("/proc/self/ns/net")
	if !ok || pod == node {
		t.Errorf("%s: inode %d is not a namespace of the pod's own", path, pod)
	}
}
