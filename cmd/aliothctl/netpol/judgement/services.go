// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package judgement

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// target is an end with the port that packets have there.
type target struct {
	*end
	port Port
}

// VirtualIPs returns the addresses that a Service has itself.
func VirtualIPs(service *corev1.Service) []netip.Addr {
	texts := slices.Concat(service.Spec.ClusterIPs, service.Spec.ExternalIPs, []string{service.Spec.ClusterIP})
	for _, one := range service.Status.LoadBalancer.Ingress {
		texts = append(texts, one.IP)
	}
	var ips []netip.Addr
	for _, ip := range parseIPs(texts...) {
		if !slices.Contains(ips, ip) {
			ips = append(ips, ip)
		}
	}
	return ips
}

// backends returns the ends that a Service leads packets to, each with its port.
func (o *Objects) backends(service *corev1.Service, q *Question) ([]target, error) {
	name := Name{service.Namespace, service.Name}
	switch {
	case q.Network != "":
		return nil, fmt.Errorf("service %s: --network asks about addresses, not about Services: name a pod or an IP", name)
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return nil, fmt.Errorf("service %s is of type ExternalName, a name of DNS alone: name the address behind it", name)
	case service.Spec.ClusterIP == corev1.ClusterIPNone:
		return nil, fmt.Errorf("service %s is headless, so clients connect to its pods: name a pod", name)
	}
	port, err := portOf(service, q.Port)
	if err != nil {
		return nil, err
	}
	list, err := o.inSlices(service, port, q)
	if err == nil && len(list) == 0 && o.FromFiles {
		list, err = o.selected(service, port, q)
	}
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("service %s has no backend for its port %d/%s", name, port.Port, q.Port.Protocol)
	}
	for _, one := range list {
		one.service, one.virtual = service, VirtualIPs(service)
	}
	return list, err
}

// portOf returns the port of a Service, by number or by name.
func portOf(service *corev1.Service, asked Port) (*corev1.ServicePort, error) {
	var all []string
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		protocol := string(cmp.Or(port.Protocol, corev1.ProtocolTCP))
		if protocol == asked.Protocol && (asked.Number != 0 && port.Port == int32(asked.Number) ||
			asked.Number == 0 && port.Name == asked.Name) {
			return port, nil
		}
		all = append(all, strings.TrimSpace(fmt.Sprintf("%d/%s %s", port.Port, protocol, port.Name)))
	}
	return nil, fmt.Errorf("service %s/%s has no port %s; it has: %s",
		service.Namespace, service.Name, asked, strings.Join(all, ", "))
}

// inSlices returns the backends of the EndpointSlices of a Service.
func (o *Objects) inSlices(service *corev1.Service, port *corev1.ServicePort, q *Question) (list []target, err error) {
	seen := map[string]bool{}
	for _, slice := range o.Slices {
		if slice.Namespace != service.Namespace || slice.Labels[discoveryv1.LabelServiceName] != service.Name {
			continue
		}
		number := sliceport(slice, port)
		if number == 0 {
			continue
		}
		for i := range slice.Endpoints {
			backend, err := o.endpoint(service.Namespace, &slice.Endpoints[i], q)
			if err != nil {
				return nil, err
			}
			if key := fmt.Sprint(backend.Kind, backend.Name, number); !seen[key] {
				seen[key] = true
				list = append(list, target{backend, Port{Number: number, Protocol: q.Port.Protocol}})
			}
		}
	}
	return list, nil
}

// sliceport returns the number that a slice has for a port of its Service, 0 without one.
func sliceport(slice *discoveryv1.EndpointSlice, port *corev1.ServicePort) uint16 {
	for _, one := range slice.Ports {
		name, protocol := "", corev1.ProtocolTCP
		if one.Name != nil {
			name = *one.Name
		}
		if one.Protocol != nil {
			protocol = *one.Protocol
		}
		if name == port.Name && protocol == cmp.Or(port.Protocol, corev1.ProtocolTCP) && one.Port != nil {
			return uint16(*one.Port)
		}
	}
	return 0
}

// endpoint returns the end of an endpoint: its pod, or its addresses.
func (o *Objects) endpoint(namespace string, in *discoveryv1.Endpoint, q *Question) (*end, error) {
	if ref := in.TargetRef; ref != nil && ref.Kind == string(Pod) {
		asked := *q
		asked.VPC = "" // a Service leads to the first interface
		return o.pod(Name{cmp.Or(ref.Namespace, namespace), ref.Name}, &asked)
	}
	e := &end{Party: Party{Kind: string(IP), Name: strings.Join(in.Addresses, ",")}, ips: parseIPs(in.Addresses...)}
	return e, nil
}

// selected returns the pods and templates of files that a Service selects.
func (o *Objects) selected(service *corev1.Service, port *corev1.ServicePort, q *Question) (list []target, err error) {
	if len(service.Spec.Selector) == 0 {
		return nil, nil
	}
	selector := labels.SelectorFromSet(service.Spec.Selector)
	var ends []*end
	for _, pod := range sortedPods(o.Pods) {
		if pod.Namespace == service.Namespace && selector.Matches(labels.Set(pod.Labels)) {
			e, err := o.pod(Name{pod.Namespace, pod.Name}, q)
			if err != nil {
				return nil, err
			}
			ends = append(ends, e)
		}
	}
	for _, ref := range sortedRefs(o.Templates) {
		if ref.Name.Namespace == service.Namespace && selector.Matches(labels.Set(o.Templates[ref].Labels)) {
			e, err := o.template(ref, q, "to "+ref.String())
			if err != nil {
				return nil, err
			}
			ends = append(ends, e)
		}
	}
	for _, e := range ends {
		if number := targetPort(port, e); number != 0 {
			list = append(list, target{e, Port{Number: number, Protocol: q.Port.Protocol}})
		}
	}
	return list, nil
}

// targetPort returns the number of a Service's port at a pod, 0 if the pod has no port of its name.
func targetPort(port *corev1.ServicePort, e *end) uint16 {
	if port.TargetPort.Type == intstr.String {
		return e.portNamed(port.TargetPort.StrVal, string(cmp.Or(port.Protocol, corev1.ProtocolTCP)))
	}
	return uint16(cmp.Or(port.TargetPort.IntVal, port.Port))
}

// portNamed returns the number of a named port, 0 without it.
func (e *end) portNamed(name, protocol string) uint16 {
	if e.pod == nil {
		return 0
	}
	for _, one := range e.pod.Ports {
		if one.Name == name && one.Protocol == protocol {
			return one.Port
		}
	}
	return 0
}

func sortedPods(pods map[Name]*corev1.Pod) []*corev1.Pod {
	return slices.SortedFunc(maps.Values(pods), func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

func sortedRefs[V any](of map[Ref]V) []Ref {
	return slices.SortedFunc(maps.Keys(of), func(a, b Ref) int { return cmp.Compare(a.String(), b.String()) })
}

// metaOf returns the metadata of an object without a namespace.
func metaOf(name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: labels}
}
