// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/soak"
)

// The number of pods of the large wave in `make soak` and elsewhere, half of them on each
// node.
const (
	largeWave = 100
	wave      = 42
)

// killing is one thing that dies without warning and is started again.
type killing struct {
	what string
	do   func(ctx context.Context) error
}

// killings returns all programs that a pod's life depends on, with a way to kill each.
func (e *env) killings() []killing {
	first, second := e.Nodes()
	restart := func(name string) func(context.Context) error {
		return func(ctx context.Context) error { return e.Lab.RestartProcess(ctx, name) }
	}
	return []killing{
		{"the operator that leads", func(ctx context.Context) error { _, err := e.KillLeader(ctx); return err }},
		{"the daemon on " + second, func(ctx context.Context) error { return e.Lab.KillDaemon(ctx, second) }},
		{"containerd on " + second, restart(second + "/containerd")},
		{"the kubelet on " + second, restart(second + "/kubelet")},
		{"the daemon on " + first, func(ctx context.Context) error { return e.Lab.KillDaemon(ctx, first) }},
		{"the API server", restart(first + "/kube-apiserver")},
		{"etcd", restart(first + "/etcd")},
	}
}

func TestPodWave_EachProgramKilled_StartsAndEnds(t *testing.T) {
	e := start(t)
	first, second := e.Nodes()
	tenant := e.Tenant(t, stage.Overlapping("wave"))
	selecting := e.secondNetwork(t, tenant)
	size := soak.Or(t, largeWave, wave)
	var pods, withTwo []*corev1.Pod
	for i := range size {
		pod := tenant.Pod(fmt.Sprintf("pod-%03d", i), scene.OnNode([]string{first, second}[i%2]))
		if i%5 == 0 {
			selecting(pod)
			withTwo = append(withTwo, pod)
		}
		pods = append(pods, pod)
	}
	e.createWhileKilling(t, pods)
	// A container whose start containerd did not live to see is made again, so
	// here restarts say nothing about the network.
	e.expectReach(t, pods[0], pods[1], pods[2], pods[size-2], pods[size-1])
	e.expectClaims(t, tenant.VPC.Name, pods)
	e.expectInterfaces(t, withTwo)

	e.deleteWhileKilling(t, tenant, size)
	e.expectNothingOf(t, tenant.Namespace.Name)
	e.quiet(t)
}

// createWhileKilling creates pods, everything being killed in turn on the way,
// and waits until all of them are Ready.
func (e *env) createWhileKilling(t *testing.T, pods []*corev1.Pod) {
	t.Helper()
	began, killings := time.Now(), e.killings()
	every := (len(pods) + len(killings) - 1) / len(killings)
	for i, pod := range pods {
		e.does(t, "pod "+pod.Name+" to be created", func(ctx context.Context) error {
			return client.IgnoreAlreadyExists(e.Client.Create(ctx, pod))
		})
		if i%every == every/2 {
			e.does(t, "kill "+killings[i/every].what, killings[i/every].do)
		}
	}
	e.waitReady(t, pods...)
	t.Logf("%d pods were Ready after %s, while everything was killed in turn", len(pods), time.Since(began).Round(time.Second))
}

// deleteWhileKilling deletes a tenant's namespace with size pods. Every program is killed in turn
// while the pods give their addresses back. It waits until all are gone.
func (e *env) deleteWhileKilling(t *testing.T, tenant *scene.Tenant, size int) {
	t.Helper()
	began, killings := time.Now(), e.killings()
	e.does(t, "the namespace to be deleted", func(ctx context.Context) error {
		return e.BeginToLeave(ctx, tenant.Namespace)
	})
	whole := 2 * size
	for i, killing := range killings {
		e.waitClaims(t, tenant.VPC.Name, whole-i*whole/len(killings)/2)
		e.does(t, "kill "+killing.what, killing.do)
	}
	e.waitClaims(t, tenant.VPC.Name, 0)
	if err := e.WaitGone(stage.Within(t, patience), tenant.Namespace); err != nil {
		t.Fatal(err)
	}
	t.Logf("the namespace with its %d pods was gone after %s", size, time.Since(began).Round(time.Second))
}

// claims returns the names of a VPC's Addresses, by the UID of their holder.
func (e *env) claims(ctx context.Context, vpc string) (claims map[string][]string, count int, err error) {
	var list v1alpha1.AddressList
	if err := e.Client.List(ctx, &list, client.MatchingFields{"spec.vpc": vpc}); err != nil {
		return nil, 0, err
	}
	claims = map[string][]string{}
	for _, address := range list.Items {
		uid := address.Spec.Holder.UID
		claims[uid] = append(claims[uid], address.Name)
	}
	return claims, len(list.Items), nil
}

// waitClaims waits until a VPC has at most as many Addresses as most says.
func (e *env) waitClaims(t *testing.T, vpc string, most int) {
	t.Helper()
	e.waits(t, fmt.Sprintf("at most %d addresses to be held", most), func(ctx context.Context) (bool, string, error) {
		_, count, err := e.claims(ctx, vpc)
		return err == nil && count <= most, fmt.Sprintf("%d are", count), err
	})
}

// expectClaims requires that every pod of a VPC holds the two addresses that it reports,
// and that no other address is held.
func (e *env) expectClaims(t *testing.T, vpc string, pods []*corev1.Pod) {
	t.Helper()
	e.expectDistinct(t, pods)
	claims, count, err := e.claims(stage.Within(t, patience), vpc)
	if err != nil {
		t.Fatal(err)
	}
	if count != 2*len(pods) {
		t.Errorf("%d addresses are held, want two of each of %d pods", count, len(pods))
	}
	for _, pod := range pods {
		var want []string
		for _, ip := range scene.IPs(pod) {
			want = append(want, v1alpha1.AddressName(vpc, ip))
		}
		slices.Sort(want)
		if got := slices.Sorted(slices.Values(claims[string(pod.UID)])); len(want) != 2 || !slices.Equal(got, want) {
			t.Errorf("pod %s reports %v and holds %v", pod.Name, want, got)
		}
	}
}

// expectDistinct requires that no address occurs twice among the pods of one
// VPC.
func (e *env) expectDistinct(t *testing.T, pods []*corev1.Pod) {
	t.Helper()
	owners := map[string]string{}
	for _, pod := range pods {
		for _, ip := range scene.IPs(pod) {
			if other, taken := owners[ip.String()]; taken {
				t.Errorf("%s and %s both have %s", other, pod.Name, ip)
			}
			owners[ip.String()] = pod.Name
		}
	}
}

// quiet waits until all of the cluster's own parts run again.
func (e *env) quiet(t *testing.T) {
	t.Helper()
	if err := e.Lab.WaitNodesReady(stage.Within(t, patience)); err != nil {
		t.Fatal(err)
	}
	e.waits(t, "all pods of Alioth to be Ready", func(ctx context.Context) (bool, string, error) {
		var list corev1.PodList
		if err := e.Client.List(ctx, &list, client.InNamespace(cluster.SystemNamespace)); err != nil {
			return false, "", err
		}
		for i := range list.Items {
			if !scene.IsReady(&list.Items[i]) {
				return false, list.Items[i].Name + " is not", nil
			}
		}
		return true, "", nil
	})
}

func TestOperator_LeaderKilledInWave_AnotherTakesOver(t *testing.T) {
	e := start(t)
	e.quiet(t)
	first, second := e.Nodes()
	tenant := e.Tenant(t, stage.Overlapping("failover"))
	var pods []*corev1.Pod
	for i := range 30 {
		pods = append(pods, tenant.Pod(fmt.Sprintf("pod-%02d", i), scene.OnNode([]string{first, second}[i%2])))
	}
	before, killed := "", time.Time{}
	for i, pod := range pods {
		if i == len(pods)/2 {
			e.does(t, "kill the operator that leads", func(ctx context.Context) (err error) {
				before, err = e.KillLeader(ctx)
				killed = time.Now()
				return err
			})
		}
		if err := e.Create(stage.Within(t, patience), pod); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.AwaitOtherLeader(stage.Within(t, patience), before); err != nil {
		t.Fatal(err)
	}
	leads := time.Since(killed)
	last := pods[len(pods)-1]
	e.waits(t, "the last pod to be told its addresses", func(ctx context.Context) (bool, string, error) {
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(last), last)
		condition := scene.NetworkCondition(last)
		return err == nil && condition != nil && condition.Status == corev1.ConditionTrue, "", err
	})
	t.Logf("another operator led %s after the kill, and the last pod had its addresses after %s",
		leads.Round(100*time.Millisecond), time.Since(killed).Round(100*time.Millisecond))
	e.waitReady(t, pods...)
	e.expectUnharmed(t, pods...)
	e.expectDistinct(t, pods)
	e.quiet(t)
}
