// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
)

// forceDelete removes a pod's object, whether or not the pod has ended.
func (l *lab) forceDelete(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		if err := client.IgnoreNotFound(l.Client.Delete(patience(t), pod.DeepCopy(), client.GracePeriodSeconds(0))); err != nil {
			t.Fatal(err)
		}
	}
}

// expectFreed requires that pods go, and that no address is held for them.
func (l *lab) expectFreed(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		if err := l.WaitGone(patience(t), pod); err != nil {
			t.Fatal(err)
		}
		until(t, "the addresses of "+pod.Name+" to be free", func(ctx context.Context) (bool, string, error) {
			held, err := l.Held(ctx, pod.UID)
			return err == nil && len(held) == 0, fmt.Sprint(held), err
		})
	}
}

// expectOwn requires that all pods report different addresses and hold them. each is the number of
// addresses of one pod.
func (l *lab) expectOwn(t *testing.T, each int, pods ...*corev1.Pod) {
	t.Helper()
	owners := map[netip.Addr]string{}
	for _, pod := range pods {
		held, err := l.Held(patience(t), pod.UID)
		if err != nil {
			t.Fatal(err)
		}
		if len(held) != each {
			t.Errorf("pod %s holds %v, want %d addresses", pod.Name, held, each)
		}
		for _, ip := range append(held, scene.IPs(pod)...) {
			if owner, taken := owners[ip]; taken && owner != string(pod.UID) {
				t.Errorf("pod %s has %s, and so has another", pod.Name, ip)
			}
			owners[ip] = string(pod.UID)
		}
	}
}

// expectNoAddress waits until no address of a VPC is held.
func (l *lab) expectNoAddress(t *testing.T, vpc string) {
	t.Helper()
	until(t, "no address of "+vpc+" to be held", func(ctx context.Context) (bool, string, error) {
		var list v1alpha1.AddressList
		err := l.Client.List(ctx, &list, client.MatchingFields{"spec.vpc": vpc})
		return err == nil && len(list.Items) == 0, fmt.Sprintf("%d are", len(list.Items)), err
	})
}

// ready waits until pods that exist are Ready.
func (l *lab) ready(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	if err := l.WaitReady(patience(t), pods...); err != nil {
		t.Fatal(err)
	}
}

// create creates pods, which go with their namespace.
func (l *lab) create(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		if err := l.Create(patience(t), pod); err != nil {
			t.Fatal(err)
		}
	}
}
