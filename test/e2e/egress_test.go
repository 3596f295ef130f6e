// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/netip"
	"strconv"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// withEgress creates a tenant whose VPC lets its pods out.
func (e *env) withEgress(t *testing.T, name string) *scene.Tenant {
	t.Helper()
	spec := stage.Overlapping(name)
	spec.Egress = v1alpha1.EgressMasquerade
	return e.Tenant(t, spec)
}

func TestEgress_SameAddressPortAndPeer_BothAnswered(t *testing.T) {
	t.Parallel()
	e := start(t)
	host := e.outsideHost(t, "shared", 204)
	address := e.serveOn(t, host, "shared", 204)
	first, _ := e.Nodes()
	const nic = `{"ip": "10.10.1.77"}`
	pods := []*corev1.Pod{
		e.withEgress(t, "green").Pod("asker", scene.OnNode(first), scene.WithNIC(nic)),
		e.withEgress(t, "grey").Pod("asker", scene.OnNode(first), scene.WithNIC(nic)),
	}
	e.Run(t, pods...)
	targets := scene.Targets(scene.Protocols(), address)
	results := make([][]report.Probe, len(pods))
	var group errgroup.Group
	for i, pod := range pods {
		group.Go(func() error {
			command := append([]string{scene.Tool, "probe", "--timeout", answerTime.String(), "--source-port", strconv.Itoa(socketPort)}, targets...)
			out, err := e.Exec(within(t, patience), pod, command...)
			if err != nil {
				return err
			}
			results[i], err = scene.ParseLines[report.Probe](out)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for i, pod := range pods {
		for _, result := range results[i] {
			if !result.OK {
				t.Errorf("%s: no answer from %s: %s", pod.Namespace, result.Target, result.Error)
			}
		}
	}
}

func TestEgress_VPCLists_Narrowed(t *testing.T) {
	t.Parallel()
	e := start(t)
	host := e.outsideHost(t, "listed", 205)
	address := e.serveOn(t, host, "listed", 205)
	around := netip.PrefixFrom(address, 24).Masked().String()
	tenant := e.withEgress(t, "lists")
	_, second := e.Nodes()
	pod := tenant.Pod("asker", scene.OnNode(second))
	e.Run(t, pod)
	targets := scene.Targets(scene.Protocols(), address)
	for _, c := range []struct {
		name        string
		allow, deny []string
		reached     bool
	}{
		{"a range is allowed", []string{around}, nil, true},
		{"another range is allowed", []string{"203.0.113.0/24"}, nil, false},
		{"the address is allowed, its range denied", []string{address.String() + "/32"}, []string{around}, false},
		{"no list any more", nil, nil, true},
		{"the address is denied", nil, []string{address.String() + "/32"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			vpc := &v1alpha1.VPC{}
			if err := e.Client.Get(within(t, patience), client.ObjectKeyFromObject(tenant.VPC), vpc); err != nil {
				t.Fatal(err)
			}
			before := vpc.DeepCopy()
			vpc.Spec.EgressAllow, vpc.Spec.EgressDeny = c.allow, c.deny
			if err := e.Client.Patch(within(t, patience), vpc, client.MergeFrom(before)); err != nil {
				t.Fatal(err)
			}
			e.awaitReach(t, pod, c.reached, targets[0])
			if !c.reached {
				e.expectSilence(t, pod, targets...)
				return
			}
			results, err := e.Ask(within(t, patience), pod, answerTime, targets...)
			if err != nil {
				t.Fatal(err)
			}
			for _, result := range results {
				if !result.OK {
					t.Errorf("no answer from %s: %s", result.Target, result.Error)
				}
			}
		})
	}
}

// awaitReach waits until a target answers a pod, or does no longer: changes in the API
// take a moment to arrive on a node.
func (e *env) awaitReach(t *testing.T, pod *corev1.Pod, wanted bool, target string) {
	t.Helper()
	ctx := within(t, patience)
	for {
		results, err := e.Ask(ctx, pod, silenceTime, target)
		if err != nil {
			t.Fatalf("%s: want an answer: %v; %v", target, wanted, err)
		}
		if results[0].OK == wanted {
			return
		}
	}
}
