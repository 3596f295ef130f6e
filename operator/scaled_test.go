// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// scaled waits until the only ScaledEndpoint of a Service meets a condition. With nil it waits
// until the Service has no ScaledEndpoint.
func (r *rig) scaled(name string, is func(*v1alpha1.ScaledEndpoint) bool) *v1alpha1.ScaledEndpoint {
	r.t.Helper()
	var found *v1alpha1.ScaledEndpoint
	r.eventually(func() error {
		found = nil
		var list v1alpha1.ScaledEndpointList
		if err := r.List(r.t.Context(), &list); err != nil {
			return err
		}
		count := 0
		for i := range list.Items {
			if service := list.Items[i].Spec.Service; service.Namespace == metav1.NamespaceDefault && service.Name == name {
				found, count = &list.Items[i], count+1
			}
		}
		if is == nil && count == 0 || is != nil && count == 1 && is(found) {
			return nil
		}
		return fmt.Errorf("%d ScaledEndpoints of Service %s, the last one %+v", count, name, found)
	})
	return found
}

// TestScaledEndpoint_RealAPI_FollowsService: on a real API server, with an operator that
// ends in between.
func TestScaledEndpoint_RealAPI_FollowsService(t *testing.T) {
	r := newRig(t)
	cfg := testConfig()
	cfg.ScaledEndpoints = true
	stop := r.operate(cfg)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "scaled-web"},
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeNodePort,
			Selector: map[string]string{"app": "scaled-web"},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80}},
		},
	}
	r.create(service)
	t.Cleanup(func() { _ = r.Delete(context.WithoutCancel(t.Context()), service) })
	written := r.scaled("scaled-web", func(s *v1alpha1.ScaledEndpoint) bool {
		return s.Spec.Exposed && s.Spec.Head != nil && len(s.Spec.Head.Ports) == 1 && s.Spec.Head.Ports[0].NodePort == service.Spec.Ports[0].NodePort
	})
	r.scaled("kubernetes", func(s *v1alpha1.ScaledEndpoint) bool { return s.Spec.Exposed && s.Spec.Head != nil })

	written.Spec.Head.Ports[0].NodePort = 1
	if err := r.Update(t.Context(), written); err != nil {
		t.Fatal(err)
	}
	r.scaled("scaled-web", func(s *v1alpha1.ScaledEndpoint) bool {
		return s.Spec.Head.Ports[0].NodePort == service.Spec.Ports[0].NodePort
	})
	stop()
	if err := r.Delete(t.Context(), service); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	r.operate(cfg)
	r.scaled("scaled-web", nil)
}

// TestScaledEndpoints_JudgingPaused_OldVerdictsNotTrusted: the operator stops judging for a while.
// Meanwhile a Service ends and another changes.
func TestScaledEndpoints_JudgingPaused_OldVerdictsNotTrusted(t *testing.T) {
	r := newRig(t)
	on, off := testConfig(), testConfig()
	on.ScaledEndpoints = true
	service := func(name string) *corev1.Service {
		row := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
		}
		r.create(row)
		t.Cleanup(func() { _ = r.Delete(context.WithoutCancel(t.Context()), row) })
		return row
	}
	ends, changes := service("verdict-ends"), service("verdict-changes")
	claims := func(version int32) func(*v1alpha1.ScaledEndpoint) bool {
		return func(s *v1alpha1.ScaledEndpoint) bool { return s.Spec.Head.AllJudged == version }
	}
	stop := r.operate(on)
	r.scaled("kubernetes", claims(v1alpha1.ScaledVersion))
	stop()
	stop = r.operate(off)
	r.scaled("kubernetes", claims(0))
	if err := r.Delete(t.Context(), ends); err != nil {
		t.Fatal(err)
	}
	changes.Spec.Ports[0].Port = 81
	if err := r.Update(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
	stop()
	r.operate(on)
	r.scaled("kubernetes", claims(v1alpha1.ScaledVersion))
	// From here on nodes begin, so no old verdict may be left.
	var list v1alpha1.ScaledEndpointList
	if err := r.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for _, s := range list.Items {
		if s.Spec.Service.Name == ends.Name || s.Spec.Service.Name == changes.Name && s.Spec.Head.Ports[0].Port != 81 {
			t.Errorf("an old verdict is there when all Services count as judged: %+v", s.Spec)
		}
	}
}
