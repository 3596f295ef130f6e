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

// scaled waits until the only ScaledEndpoint of a Service meets a condition; nil: there is
// none.
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

// TestAScaledEndpointFollowsItsServiceInTheAPI: on a real API server, with an operator that
// ends in between.
func TestAScaledEndpointFollowsItsServiceInTheAPI(t *testing.T) {
	r := newRig(t)
	cfg := testConfig()
	cfg.ScaledEndpoints = true
	stop := r.operate(cfg)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "scaled-web"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"app": "scaled-web"}, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
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
