// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadutils "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/utils"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/waits"
)

// MakeNetwork creates a network for the time of a test. The API server accepts it once it knows the
// offer of the TenantConfig, and its deletion once the status has no pods.
func (e *Env) MakeNetwork(t *testing.T, network client.Object) {
	t.Helper()
	err := scene.Until(Within(t, Patience), "the network is accepted", func(ctx context.Context) (bool, string, error) {
		err := e.Client.Create(ctx, network)
		return err == nil, fmt.Sprint(err), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), waits.Limit(Patience))
		defer cancel()
		if err := e.DeleteNetwork(ctx, network); err != nil {
			t.Error(err)
		}
	})
}

// DeleteNetwork deletes a network and waits until it is gone. It returns nil for a network that is
// gone already.
func (e *Env) DeleteNetwork(ctx context.Context, network client.Object) error {
	return scene.Until(ctx, "the network is gone", func(ctx context.Context) (bool, string, error) {
		err := e.Client.Delete(ctx, network.DeepCopyObject().(client.Object))
		return apierrors.IsNotFound(err), fmt.Sprint(err), nil
	})
}

// RunFor runs pods that are deleted before their networks are.
func (e *Env) RunFor(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		e.Make(t, pod)
	}
	if err := e.WaitReady(Within(t, Patience), pods...); err != nil {
		t.Fatal(err)
	}
}

// AwaitNetwork waits until a network is Ready.
func (e *Env) AwaitNetwork(t *testing.T, network client.Object, conditions func() []metav1.Condition) {
	t.Helper()
	err := scene.Until(Within(t, Patience), "the network to be Ready", func(ctx context.Context) (bool, string, error) {
		if err := e.Client.Get(ctx, client.ObjectKeyFromObject(network), network); err != nil {
			return false, "", err
		}
		ready := meta.FindStatusCondition(conditions(), v1alpha1.ReadyCondition)
		return ready != nil && ready.Reason == v1alpha1.ReadyReason, fmt.Sprintf("%+v", ready), nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// OnDevice returns the address of a pod's interface of a family, as the kernel has it.
func (e *Env) OnDevice(t *testing.T, pod *corev1.Pod, device string, v6 bool) netip.Addr {
	t.Helper()
	family := "-4"
	if v6 {
		family = "-6"
	}
	for _, word := range strings.Fields(e.InNetNS(t, pod, "ip", family, "-o", "addr", "show", "dev", device, "scope", "global")) {
		if prefix, err := netip.ParsePrefix(word); err == nil && prefix.Addr().Is6() == v6 {
			return prefix.Addr()
		}
	}
	t.Fatalf("%s of pod %s has no address of family %s", device, pod.Name, family)
	return netip.Addr{}
}

// AwaitLinkCondition waits until a network shows whether nodes lack its link.
func (e *Env) AwaitLinkCondition(t *testing.T, network *danmv1.DanmNet, complete bool, text string) {
	t.Helper()
	err := scene.Until(
		Within(t, Patience),
		"the condition about the link",
		func(ctx context.Context) (bool, string, error) {
			if err := e.Client.Get(ctx, client.ObjectKeyFromObject(network), network); err != nil {
				return false, "", err
			}
			c := meta.FindStatusCondition(network.Status.Conditions, v1alpha1.HostLinkCondition)
			return c != nil && (c.Status == metav1.ConditionTrue) == complete &&
					strings.Contains(c.Message, text), fmt.Sprintf(
					"%+v",
					c,
				), nil
		},
	)
	if err != nil {
		t.Fatal(err)
	}
}

// AwaitStatus waits for the network status of a pod, as the public client reads it.
func (e *Env) AwaitStatus(t *testing.T, pod *corev1.Pod, interfaces int) []nadv1.NetworkStatus {
	t.Helper()
	var list []nadv1.NetworkStatus
	err := scene.Until(
		Within(t, Patience),
		"the network status of "+pod.Name,
		func(ctx context.Context) (bool, string, error) {
			if err := e.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
				return false, "", err
			}
			var err error
			list, err = nadutils.GetNetworkStatus(pod)
			return err == nil && len(list) == interfaces, fmt.Sprintf("%+v, %v", list, err), nil
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// MAC returns the address of a pod's first interface, as the operator decided it.
func MAC(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	list, err := annotations.ParseAttachments(pod.Annotations[v1alpha1.AttachmentsAnnotation])
	if err != nil || len(list) == 0 {
		t.Fatalf("pod %s has no attachments: %v", pod.Name, err)
	}
	return list[0].MAC
}
