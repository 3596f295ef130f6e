// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// service makes a Service of the common tenant without a selector. It has no endpoints yet.
func (l *lab) service(t *testing.T, changes ...func(*corev1.Service)) *corev1.Service {
	t.Helper()
	return l.serviceIn(t, l.tenant.Namespace.Name, changes...)
}

// serviceIn does the same in another namespace.
func (l *lab) serviceIn(t *testing.T, namespace string, changes ...func(*corev1.Service)) *corev1.Service {
	t.Helper()
	service := scene.Service(namespace, stage.Unique("kept"), "")
	service.Spec.Selector = nil
	for _, change := range changes {
		change(service)
	}
	l.Make(t, service)
	return service
}

// withNodePorts gives a Service node ports.
func withNodePorts(service *corev1.Service) { service.Spec.Type = corev1.ServiceTypeNodePort }

// localOutside keeps traffic from outside on its node.
func localOutside(service *corev1.Service) {
	service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}

// endpoint is a pod behind a Service.
type endpoint struct {
	pod *corev1.Pod
	// conditions as in an EndpointSlice.
	ready, serving, terminating bool
	// forNode is the node that a hint names; "" stands for no hint.
	forNode string
}

// ready are pods that take part.
func ready(pods ...*corev1.Pod) []endpoint {
	var list []endpoint
	for _, pod := range pods {
		list = append(list, endpoint{pod: pod, ready: true, serving: true})
	}
	return list
}

// leaving returns a pod that is about to end, and serves on meanwhile.
func leaving(pod *corev1.Pod) endpoint { return endpoint{pod: pod, serving: true, terminating: true} }

// lead has a Service lead to these pods and to no others.
func (l *lab) lead(t *testing.T, service *corev1.Service, pods ...*corev1.Pod) {
	t.Helper()
	l.slice(t, service, "all", report.PortEcho, ready(pods...)...)
}

// slice writes an EndpointSlice of a Service for each family, as if a controller had. A
// Service may have several, which parts tell apart. echo is the port of the echo server.
func (l *lab) slice(t *testing.T, service *corev1.Service, part string, echo int32, list ...endpoint) {
	t.Helper()
	for _, family := range service.Spec.IPFamilies {
		v6 := family == corev1.IPv6Protocol
		slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
			Namespace: service.Namespace, Name: fmt.Sprintf("%s-%s-%t", service.Name, part, v6),
			Labels: map[string]string{discoveryv1.LabelServiceName: service.Name},
		}}
		done, err := controllerutil.CreateOrUpdate(patience(t), l.Client, slice, func() error {
			slice.AddressType = discoveryv1.AddressType(family)
			slice.Endpoints, slice.Ports = nil, nil
			for _, e := range list {
				slice.Endpoints = append(slice.Endpoints, e.inSlice(v6))
			}
			for _, p := range service.Spec.Ports {
				port := discoveryv1.EndpointPort{Name: ptr.To(p.Name), Protocol: ptr.To(p.Protocol), Port: ptr.To(p.TargetPort.IntVal)}
				if p.TargetPort.IntVal == report.PortEcho {
					port.Port = ptr.To(echo)
				}
				slice.Ports = append(slice.Ports, port)
			}
			return nil
		})
		if err != nil {
			t.Fatalf("write an EndpointSlice of %s: %v", service.Name, err)
		}
		if done == controllerutil.OperationResultCreated {
			l.RemoveAfter(t, slice)
		}
	}
}

func (e endpoint) inSlice(v6 bool) discoveryv1.Endpoint {
	out := discoveryv1.Endpoint{
		Addresses: []string{scene.IP(e.pod, v6).String()}, NodeName: &e.pod.Spec.NodeName,
		Conditions: discoveryv1.EndpointConditions{Ready: &e.ready, Serving: &e.serving, Terminating: &e.terminating},
	}
	if e.forNode != "" {
		out.Hints = &discoveryv1.EndpointHints{ForNodes: []discoveryv1.ForNode{{Name: e.forNode}}}
	}
	return out
}

// change patches a Service.
func (l *lab) change(t *testing.T, service *corev1.Service, change func()) {
	t.Helper()
	before := service.DeepCopy()
	change()
	if err := l.Client.Patch(patience(t), service, client.MergeFrom(before)); err != nil {
		t.Fatalf("change Service %s: %v", service.Name, err)
	}
}

// awaitIngress waits until the status of a Service shows these addresses.
func (l *lab) awaitIngress(t *testing.T, service *corev1.Service, want ...string) {
	t.Helper()
	until(t, fmt.Sprintf("addresses %v of Service %s", want, service.Name), func(ctx context.Context) (bool, string, error) {
		err := l.Client.Get(ctx, client.ObjectKeyFromObject(service), service)
		var shown []string
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			shown = append(shown, ingress.IP)
		}
		return err == nil && slices.Equal(shown, want), fmt.Sprint(shown), err
	})
}
