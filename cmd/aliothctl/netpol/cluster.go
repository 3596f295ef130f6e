// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netpol

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cmd/aliothctl/netpol/judgement"
	"github.com/alioth-net/alioth/cmd/aliothctl/options"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/store/kinds/policies"
)

// multiNetworkPolicies is the kind of MultiNetworkPolicies, which has no Go types here.
var multiNetworkPolicies = schema.GroupVersionKind{
	Group: "k8s.cni.cncf.io", Version: "v1beta1", Kind: "MultiNetworkPolicy",
}

// readCluster adds objects of a cluster.
func readCluster(o *judgement.Objects, kubeconfig string, read func(*reader) error) error {
	config, err := options.RESTConfig(kubeconfig, cniapi.DefaultSocket)
	if err != nil {
		return fmt.Errorf("%w; without a cluster, --offline reads files", err)
	}
	r, err := newReader(o, config)
	if err != nil {
		return err
	}
	return read(r)
}

func newReader(o *judgement.Objects, config *rest.Config) (*reader, error) {
	api, err := options.NewClient(config, discoveryv1.AddToScheme, networkingv1.AddToScheme, v1alpha2.Install)
	return &reader{api: api, objects: o, nodes: map[string]bool{}}, err
}

// reader reads the objects of a cluster that an answer depends on.
type reader struct {
	api     client.Reader
	objects *judgement.Objects
	// nodes are the nodes whose Addresses were read.
	nodes map[string]bool
}

func (r *reader) read(ctx context.Context, q *judgement.Question) error {
	refs := []judgement.Ref{q.From, q.To}
	// The VPC of an address follows from the other end, so addresses come last.
	slices.SortStableFunc(refs, func(a, b judgement.Ref) int { return isIP(a) - isIP(b) })
	for _, ref := range refs {
		if err := r.end(ctx, ref, q); err != nil {
			return err
		}
	}
	if q.Network == "" {
		return r.policies(ctx)
	}
	return r.multiNetworkPolicies(ctx)
}

func isIP(ref judgement.Ref) int {
	if ref.Sort == judgement.IP {
		return 1
	}
	return 0
}

// end reads the objects of an end. A missing object is left out: the judgement names it.
func (r *reader) end(ctx context.Context, ref judgement.Ref, q *judgement.Question) error {
	switch ref.Sort {
	case judgement.Pod:
		return r.pod(ctx, ref.Name)
	case judgement.Service:
		return r.service(ctx, ref.Name)
	case judgement.IP:
		if q.Network == "" {
			return r.address(ctx, ref.IP, q)
		}
	}
	return nil
}

// pod reads a pod, its namespace, and the Addresses of its node, which the API server can select.
func (r *reader) pod(ctx context.Context, name judgement.Name) error {
	var pod corev1.Pod
	if found, err := r.get(ctx, "pods", name, &pod); !found || err != nil {
		return err
	}
	return r.place(ctx, &pod)
}

// place adds a pod, its namespace, and the Addresses of its node.
func (r *reader) place(ctx context.Context, pod *corev1.Pod) error {
	name := judgement.Name{Namespace: pod.Namespace, Name: pod.Name}
	r.objects.Pods[name] = pod
	if r.objects.Namespaces[name.Namespace] == nil {
		var namespace corev1.Namespace
		if found, err := r.get(ctx, "namespaces", judgement.Name{Name: name.Namespace}, &namespace); err != nil {
			return err
		} else if found {
			r.objects.Namespaces[name.Namespace] = &namespace
		}
	}
	if r.nodes[pod.Spec.NodeName] || pod.Spec.NodeName == "" {
		return nil
	}
	r.nodes[pod.Spec.NodeName] = true
	var list v1alpha1.AddressList
	of := client.MatchingFields{"spec.node": pod.Spec.NodeName}
	if err := r.list(ctx, "addresses.alioth.dev", "", &list, of); err != nil {
		return err
	}
	for i := range list.Items {
		r.objects.Addresses = append(r.objects.Addresses, &list.Items[i])
	}
	return nil
}

// service reads a Service, its backends, and the SharedServices.
func (r *reader) service(ctx context.Context, name judgement.Name) error {
	var service corev1.Service
	if found, err := r.get(ctx, "services", name, &service); !found || err != nil {
		return err
	}
	r.objects.Services[name] = &service
	var list discoveryv1.EndpointSliceList
	of := client.MatchingLabels{discoveryv1.LabelServiceName: name.Name}
	if err := r.list(ctx, "endpointslices.discovery.k8s.io", name.Namespace, &list, of); err != nil {
		return err
	}
	for i := range list.Items {
		r.objects.Slices = append(r.objects.Slices, &list.Items[i])
		for _, endpoint := range list.Items[i].Endpoints {
			if endpoint.TargetRef == nil || endpoint.TargetRef.Kind != string(judgement.Pod) {
				continue
			}
			pod := judgement.Name{Namespace: name.Namespace, Name: endpoint.TargetRef.Name}
			if r.objects.Pods[pod] != nil {
				continue
			}
			if err := r.pod(ctx, pod); err != nil {
				return err
			}
		}
	}
	return r.sharedServices(ctx)
}

// sharedServices reads the SharedServices: a Service of another VPC is reachable if it is one.
func (r *reader) sharedServices(ctx context.Context) error {
	var list v1alpha1.SharedServiceList
	if err := r.list(ctx, "sharedservices.alioth.dev", "", &list); err != nil {
		return err
	}
	for i := range list.Items {
		r.objects.Shared = append(r.objects.Shared, sharedBy(&list.Items[i]))
	}
	return nil
}

// address reads the holder of an IP in the VPC of the question: a pod, or a Service.
func (r *reader) address(ctx context.Context, ip netip.Addr, q *judgement.Question) error {
	vpc := r.objects.VPCOf(q)
	var address v1alpha1.Address
	name := judgement.Name{Name: v1alpha1.AddressName(vpc, ip)}
	found, err := r.get(ctx, "addresses.alioth.dev", name, &address)
	if err != nil {
		return err
	}
	if !found {
		return r.virtual(ctx, ip, q)
	}
	holder := judgement.Name{Namespace: address.Spec.Holder.Namespace, Name: address.Spec.Holder.Name}
	r.objects.Addresses = append(r.objects.Addresses, &address)
	switch address.Spec.Holder.Kind {
	case v1alpha1.HolderPod:
		return r.pod(ctx, holder)
	case v1alpha1.HolderService:
		return r.service(ctx, holder)
	case v1alpha1.HolderNode:
	}
	return nil
}

// virtual reads the Service with a virtual IP, if there is one.
func (r *reader) virtual(ctx context.Context, ip netip.Addr, q *judgement.Question) error {
	if q.To.Sort != judgement.IP || q.To.IP != ip {
		return nil
	}
	var list corev1.ServiceList
	err := r.api.List(ctx, &list)
	if apierrors.IsForbidden(err) {
		r.objects.AddNote(fmt.Sprintf("you may not list the Services of all namespaces, so whether %s is an address of one "+
			"is not known: name the Service instead (svc/NAMESPACE/NAME)", ip))
		return nil
	}
	if err != nil {
		return fmt.Errorf("list services: %w", err)
	}
	for i := range list.Items {
		if slices.Contains(judgement.VirtualIPs(&list.Items[i]), ip) {
			return r.service(ctx, judgement.Name{Namespace: list.Items[i].Namespace, Name: list.Items[i].Name})
		}
	}
	return nil
}

// policies reads the NetworkPolicies of the namespaces of all pods, and all ClusterNetworkPolicies.
func (r *reader) policies(ctx context.Context) error {
	for _, namespace := range r.objects.NamespacesOfPods() {
		if err := r.networkPolicies(ctx, namespace); err != nil {
			return err
		}
	}
	return r.clusterNetworkPolicies(ctx)
}

// networkPolicies reads the NetworkPolicies of a namespace, "" for all.
func (r *reader) networkPolicies(ctx context.Context, namespace string) error {
	var list networkingv1.NetworkPolicyList
	err := r.list(ctx, "networkpolicies.networking.k8s.io", namespace, &list)
	for i := range list.Items {
		r.objects.AddNetworkPolicy(&list.Items[i])
	}
	return err
}

func (r *reader) clusterNetworkPolicies(ctx context.Context) error {
	var list v1alpha2.ClusterNetworkPolicyList
	err := r.list(ctx, "clusternetworkpolicies.policy.networking.k8s.io", "", &list)
	for i := range list.Items {
		r.objects.AddClusterNetworkPolicy(&list.Items[i])
	}
	return err
}

// multiNetworkPolicies reads the MultiNetworkPolicies of the namespaces of all pods.
func (r *reader) multiNetworkPolicies(ctx context.Context) error {
	for _, namespace := range r.objects.NamespacesOfPods() {
		var list unstructured.UnstructuredList
		list.SetGroupVersionKind(multiNetworkPolicies.GroupVersion().WithKind(multiNetworkPolicies.Kind + "List"))
		if err := r.list(ctx, "multi-networkpolicies.k8s.cni.cncf.io", namespace, &list); err != nil {
			return err
		}
		for i := range list.Items {
			var in policies.MultiNetworkPolicy
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &in); err != nil {
				return fmt.Errorf("read MultiNetworkPolicy %s/%s: %w", namespace, list.Items[i].GetName(), err)
			}
			r.objects.AddMultiNetworkPolicy(&in)
		}
	}
	return nil
}

// get reads an object, and reports whether it exists.
func (r *reader) get(ctx context.Context, resource string, name judgement.Name, into client.Object) (bool, error) {
	err := r.api.Get(ctx, client.ObjectKey{Namespace: name.Namespace, Name: name.Name}, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, failure(err, "get", resource, name.Namespace)
}

// list reads a list. A kind that the cluster does not have has no objects.
func (r *reader) list(
	ctx context.Context,
	resource, namespace string,
	into client.ObjectList,
	narrow ...client.ListOption,
) error {
	err := r.api.List(ctx, into, append(narrow, client.InNamespace(namespace))...)
	if meta.IsNoMatchError(err) {
		return nil
	}
	return failure(err, "list", resource, namespace)
}

// failure names the right that a refused request lacks.
func failure(err error, verb, resource, namespace string) error {
	if err == nil {
		return nil
	}
	where := ""
	if namespace != "" {
		where = " in namespace " + namespace
	}
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("you lack the right to %s %s%s, on which the answer depends: ask the cluster's administrator for it",
			verb, resource, where)
	}
	return fmt.Errorf("%s %s%s: %w", verb, resource, where, err)
}
