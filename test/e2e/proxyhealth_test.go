// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/cnid/forward/proxyhealth"
	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/waits"
)

// leavingTaint is the taint of a node that the cluster's autoscaler is about to delete. With this
// effect the taint does nothing else.
var leavingTaint = corev1.Taint{Key: "ToBeDeletedByClusterAutoscaler", Value: "test", Effect: corev1.TaintEffectPreferNoSchedule}

func TestHealthPorts_LoadBalancer_AnswerLikeKubeProxy(t *testing.T) {
	t.Parallel()
	e := start(t)
	host := e.outsideHost(t, "balances", 216)
	nodes := e.Lab.Nodes()
	for _, node := range nodes {
		e.awaitHealth(t, host, node.IPv4, "healthz", true)
		e.awaitHealth(t, host, node.IPv4, "livez", true)
	}
	e.taint(t, nodes[1].Name, true)
	e.awaitHealth(t, host, nodes[1].IPv4, "healthz", false)
	e.awaitHealth(t, host, nodes[1].IPv4, "livez", true)
	e.awaitHealth(t, host, nodes[0].IPv4, "healthz", true)
	e.taint(t, nodes[1].Name, false)
	e.awaitHealth(t, host, nodes[1].IPv4, "healthz", true)
}

// awaitHealth waits until a node reports at one of kube-proxy's pages that it is healthy,
// or that it is not.
func (e *env) awaitHealth(t *testing.T, host *cluster.Host, at netip.Addr, page string, well bool) {
	t.Helper()
	url := fmt.Sprintf("http://%s/%s", netip.AddrPortFrom(at, proxyhealth.Port), page)
	err := scene.Until(within(t, patience), url, func(ctx context.Context) (bool, string, error) {
		answer, err := host.Exec(ctx, e.Tool, "get", url)
		if !well {
			return err != nil && strings.Contains(err.Error(), "503"), fmt.Sprint(answer, err), nil
		}
		var body map[string]any
		return err == nil && json.Unmarshal([]byte(answer), &body) == nil && body["lastUpdated"] != nil, fmt.Sprint(answer, err), nil
	})
	if err != nil {
		t.Error(err)
	}
}

// taint gives the taint to a node, or takes it away, which the end of the test does too.
func (e *env) taint(t *testing.T, name string, there bool) {
	t.Helper()
	set := func(ctx context.Context, there bool) error {
		node := &corev1.Node{}
		if err := e.Client.Get(ctx, types.NamespacedName{Name: name}, node); err != nil {
			return err
		}
		before := node.DeepCopy()
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == leavingTaint.Key })
		if there {
			node.Spec.Taints = append(node.Spec.Taints, leavingTaint)
		}
		return e.Client.Patch(ctx, node, client.MergeFrom(before))
	}
	if err := set(within(t, patience), there); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), waits.Limit(patience))
		defer cancel()
		if err := set(ctx, false); err != nil {
			t.Error(err)
		}
	})
}
