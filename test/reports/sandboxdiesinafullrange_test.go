// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"fmt"
	"path"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/cluster/node"
	"github.com/alioth-net/alioth/test/e2e/scene"
)

// sandbox returns the container of a pod that has its network, as the daemon of its node knows
// it.
func (l *lab) sandbox(t *testing.T, at string, pod *corev1.Pod) (container string) {
	t.Helper()
	until(t, "an interface of "+pod.Name, func(ctx context.Context) (bool, string, error) {
		dump, err := l.Dump(ctx, at)
		for _, a := range dump.Attachments {
			if a.Pod.UID == string(pod.UID) {
				container = a.ContainerID
			}
		}
		return container != "", fmt.Sprintf("%d interfaces of others", len(dump.Attachments)), err
	})
	return container
}

// oneAddress describes a tenant whose only subnet has one address for pods.
func oneAddress(name string) scene.TenantSpec {
	return scene.TenantSpec{
		Name: name, CIDRs: []string{"10.10.0.0/16"},
		Subnets: []scene.Range{{Name: "net1", CIDRs: []string{"10.10.1.0/29"}, Reserved: []string{"10.10.1.3-10.10.1.6"}}},
	}
}

var _ = kept(Report{
	Name: "sandbox-dies-in-a-full-range", Source: "k8snetworkplumbingwg/whereabouts#291", Kind: restarts,
	Input: "The sandbox of a pod dies, and the kubelet makes another one. No address is free: the pod has the last one.",
	Want:  "The pod gets the address that it has, and runs again.",
	Run: func(t *testing.T, l *lab) {
		_, second := l.Nodes()
		tenant := l.Tenant(t, oneAddress("sandbox"))
		pod := tenant.Pod("pod", scene.OnNode(second))
		l.Run(t, pod)
		before, container, ips := l.sandbox(t, second, pod), pod.Status.ContainerStatuses[0].ContainerID, scene.IPs(pod)
		l.OnNode(t, second, "sh", "-c", "kill -9 $(cat "+path.Join(node.TasksDir, before, "init.pid")+")")
		until(t, "the pod to run again", func(ctx context.Context) (bool, string, error) {
			err := l.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
			again := err == nil && scene.IsReady(pod) && pod.Status.ContainerStatuses[0].ContainerID != container
			return again, string(pod.Status.Phase), err
		})
		if after := l.sandbox(t, second, pod); after == before || !slices.Equal(scene.IPs(pod), ips) {
			t.Errorf("the sandbox was %s and is %s; the addresses were %v and are %v", before, after, ips, scene.IPs(pod))
		}
		l.expectOwn(t, 1, pod)
	},
})
