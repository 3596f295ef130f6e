// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

var _ = kept(Report{
	Name: "many-interfaces-at-once", Source: "k8snetworkplumbingwg/whereabouts#103", Kind: interfaces,
	Input: "Pods on two nodes are created at the same time. Each wants three addresses of one network, which has as many as all of them want.",
	Want:  "All pods start, and no two interfaces have the same address.",
	Run: func(t *testing.T, l *lab) {
		first, second := l.Nodes()
		tenant := l.Tenant(t, stage.Overlapping("many"))
		network := l.network(t, tenant, "10.123.1.0/24", func(o *danmv1.NetworkOptions) {
			o.AllocationPool = &danmv1.AllocationPool{Start: "10.123.1.10", End: "10.123.1.21"}
		})
		var pods []*corev1.Pod
		for i, node := range []string{first, second, first, second} {
			pods = append(pods, tenant.Pod(fmt.Sprintf("pod-%d", i), scene.OnNode(node), with(tenant, network, slices.Repeat([]string{dynamic}, 3)...)))
		}
		l.RunFor(t, pods...)
		l.expectOwn(t, 5, pods...)
		for _, pod := range pods[1:] {
			for _, device := range []string{"ext1", "ext2", "ext3"} {
				l.InPod(t, pods[0], "ping", "-c", "1", "-W", "5", l.OnDevice(t, pod, device, false).String())
			}
		}
	},
})
