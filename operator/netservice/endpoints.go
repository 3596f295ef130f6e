// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netservice

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/endpointslice"
	endpointsliceutil "k8s.io/endpointslice/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// maxAddresses is how many addresses an Endpoints object has at most, as in Kubernetes.
const maxAddresses = 1000

// The types of Endpoints are deprecated in favour of EndpointSlices. Programs without support for
// slices still read them, and so do users of DANM.
type (
	endpoints       = corev1.Endpoints       //nolint:staticcheck // as above
	endpointSubset  = corev1.EndpointSubset  //nolint:staticcheck // as above
	endpointAddress = corev1.EndpointAddress //nolint:staticcheck // as above
	endpointPort    = corev1.EndpointPort
)

// endpointsFor returns the Endpoints of a Service. pods has one pod per endpoint, with its address
// as the only one. The label keeps Kubernetes from making slices of them.
func endpointsFor(service *corev1.Service, pods []*corev1.Pod) *endpoints {
	object := &endpoints{ObjectMeta: metav1.ObjectMeta{
		Namespace: service.Namespace, Name: service.Name,
		Labels: map[string]string{
			discoveryv1.LabelSkipMirror: "true", v1alpha1.EndpointsManagerLabel: v1alpha1.EndpointsManager,
		},
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(service, corev1.SchemeGroupVersion.WithKind("Service")),
		},
	}}
	for key, value := range service.Labels {
		if _, ours := object.Labels[key]; !ours {
			object.Labels[key] = value
		}
	}
	if len(pods) > maxAddresses {
		pods = pods[:maxAddresses]
		object.Annotations = map[string]string{corev1.EndpointsOverCapacity: "truncated"}
	}
	object.Subsets = subsets(service, pods)
	return object
}

// subsets groups endpoints by their ports, as target ports may have another number in each
// pod.
func subsets(service *corev1.Service, pods []*corev1.Pod) []endpointSubset {
	byPorts := map[string]*endpointSubset{}
	for _, pod := range pods {
		ready, listed := readiness(service, pod)
		if !listed {
			continue
		}
		ports, key := portsOf(service, pod)
		subset := byPorts[key]
		if subset == nil {
			subset = &endpointSubset{Ports: ports}
			byPorts[key] = subset
		}
		if ready {
			subset.Addresses = append(subset.Addresses, addressOf(service, pod))
		} else {
			subset.NotReadyAddresses = append(subset.NotReadyAddresses, addressOf(service, pod))
		}
	}
	var keys []string
	for key, subset := range byPorts {
		keys = append(keys, key)
		slices.SortFunc(subset.Addresses, byAddress)
		slices.SortFunc(subset.NotReadyAddresses, byAddress)
	}
	slices.Sort(keys)
	var all []endpointSubset
	for _, key := range keys {
		all = append(all, *byPorts[key])
	}
	return all
}

func byAddress(a, b endpointAddress) int {
	return cmp.Or(strings.Compare(a.IP, b.IP), strings.Compare(string(a.TargetRef.UID), string(b.TargetRef.UID)))
}

// readiness reports whether a pod is ready, and whether Endpoints list it at all: they can't
// tell that a pod is terminating.
func readiness(service *corev1.Service, pod *corev1.Pod) (ready, listed bool) {
	if service.Spec.PublishNotReadyAddresses {
		return true, endpointsliceutil.ShouldPodBeInEndpoints(pod, true)
	}
	return endpointsliceutil.IsPodReady(pod), endpointsliceutil.ShouldPodBeInEndpoints(pod, false)
}

// portsOf returns the ports of a pod for a Service, and a text that is equal for equal ports. A
// named port that the pod lacks is left out.
func portsOf(service *corev1.Service, pod *corev1.Pod) (ports []endpointPort, key string) {
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		number, err := endpointslice.FindPort(pod, port)
		if err != nil {
			continue
		}
		ports = append(
			ports,
			endpointPort{Name: port.Name, Port: int32(number), Protocol: port.Protocol, AppProtocol: port.AppProtocol},
		) //nolint:gosec // the API has 1 to 65535
		key += fmt.Sprintf("%s/%s/%d,", port.Name, port.Protocol, number)
	}
	return ports, key
}

func addressOf(service *corev1.Service, pod *corev1.Pod) endpointAddress {
	address := endpointAddress{
		IP: pod.Status.PodIPs[0].IP, NodeName: &pod.Spec.NodeName,
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
	}
	if endpointsliceutil.ShouldSetHostname(pod, service) {
		address.Hostname = pod.Spec.Hostname
	}
	return address
}

// writeEndpoints writes the wanted Endpoints object of a Service, nil for none. It does not touch
// an object of another program, and returns the refusal then. An object that was written in this
// term is not read again until the wanted content changes.
func (r *Reconciler) writeEndpoints(
	ctx context.Context,
	service types.NamespacedName,
	uid string,
	wanted *endpoints,
) (*tenancy.Refusal, error) {
	if r.wrote.has(service, uid, wanted) {
		return nil, nil
	}
	present := &endpoints{}
	err := r.Live.Get(ctx, service, present)
	switch {
	case apierrors.IsNotFound(err) && wanted != nil:
		err = r.Client.Create(ctx, wanted.DeepCopy())
	case apierrors.IsNotFound(err):
		err = nil
	case err != nil:
	case !isOurs(present, uid) && wanted != nil:
		return foreign(service), nil
	case !isOurs(present, uid): // there is nothing to remove
	case wanted == nil:
		err = client.IgnoreNotFound(
			r.Client.Delete(ctx, present, client.Preconditions{UID: &present.UID, ResourceVersion: &present.ResourceVersion}),
		)
	default:
		err = r.updateEndpoints(ctx, present, wanted)
	}
	if err != nil && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil, fmt.Errorf("write the Endpoints of Service %s: %w", service, err)
	}
	r.wrote.set(service, uid, wanted)
	return nil, nil
}

func (r *Reconciler) updateEndpoints(ctx context.Context, present, wanted *endpoints) error {
	next := present.DeepCopy()
	next.Labels, next.Subsets = wanted.Labels, wanted.Subsets
	delete(next.Annotations, corev1.EndpointsOverCapacity)
	for key, value := range wanted.Annotations {
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, key, value)
	}
	if equality.Semantic.DeepEqual(present, next) {
		return nil
	}
	return r.Client.Update(ctx, next)
}

// isOurs reports whether the operator has made Endpoints, for the Service with a UID. The UID ""
// means that the Service is gone.
func isOurs(object *endpoints, uid string) bool {
	owner := metav1.GetControllerOfNoCopy(object)
	return object.Labels[v1alpha1.EndpointsManagerLabel] == v1alpha1.EndpointsManager &&
		owner != nil && owner.Kind == "Service" && (uid == "" || string(owner.UID) == uid)
}

// foreign explains that the wanted Endpoints are another program's.
func foreign(service types.NamespacedName) *tenancy.Refusal {
	return &tenancy.Refusal{Reason: v1alpha1.EndpointsNotOwnedReason, Message: fmt.Sprintf(
		"the Endpoints object %s is not Alioth's, and stays as it is: it may be of DANM's svcwatcher, or of a former Service; "+
			"if no program needs it, delete it. The EndpointSlices are complete, but Kubernetes makes slices of that object too",
		service,
	)}
}
