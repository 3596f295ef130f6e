// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netservice

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/endpointslice"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
)

// maxPerSlice is how many endpoints a slice has at most, as in Kubernetes.
const maxPerSlice = 100

// errStale is the error of work on an outdated cache. It is a conflict, so that the queue tries
// again.
var errStale = apierrors.NewConflict(
	discoveryv1.Resource("endpointslices"),
	"",
	errors.New("the informers have not seen the last write yet"),
)

// writeSlices makes the EndpointSlices of a Service have the endpoints of each domain, by the
// library of Kubernetes: it resolves ports, and changes as little as possible. pods has one pod per
// endpoint by domain, with its address as the only one. A domain without pods has a slice without
// endpoints.
func (r *Reconciler) writeSlices(
	ctx context.Context,
	service *corev1.Service,
	pods map[string][]*corev1.Pod,
	present []*discoveryv1.EndpointSlice,
) error {
	if r.tracker.StaleSlices(service, present) {
		return errStale
	}
	byDomain := map[string][]*discoveryv1.EndpointSlice{}
	for _, slice := range present {
		byDomain[slice.Labels[v1alpha1.DomainLabel]] = append(byDomain[slice.Labels[v1alpha1.DomainLabel]], slice)
	}
	var errs []error
	for domain, list := range byDomain {
		if _, wanted := pods[domain]; !wanted {
			errs = append(errs, r.deleteSlices(ctx, list))
		}
	}
	for _, domain := range slices.Sorted(maps.Keys(pods)) {
		errs = append(errs, r.writeDomain(ctx, service, domain, pods[domain], byDomain[domain]))
	}
	return errors.Join(errs...)
}

// writeDomain writes the slices of one domain.
func (r *Reconciler) writeDomain(
	ctx context.Context,
	service *corev1.Service,
	domain string,
	pods []*corev1.Pod,
	present []*discoveryv1.EndpointSlice,
) error {
	labelled := service.DeepCopy() // the slices get its labels
	if labelled.Labels == nil {
		labelled.Labels = map[string]string{}
	}
	labelled.Labels[v1alpha1.DomainLabel] = domain
	writes := &sliceWrites{ctx: ctx, client: r.Client, present: present}
	library := endpointslice.NewReconciler(
		clientset{sliceWrites: writes},
		nodeLister{store: r.Store},
		maxPerSlice,
		r.tracker,
		nil,
		nil,
		v1alpha1.EndpointsManager,
		endpointslice.WithPreferSameTrafficDistributionEnabled(true),
	)
	err := library.Reconcile(ctrl.LoggerFrom(ctx), labelled, pods, present, time.Time{})
	if writes.conflict != nil {
		return writes.conflict // the library hides it
	}
	if err != nil {
		return fmt.Errorf("write the EndpointSlices of Service %s/%s in %s: %w", service.Namespace, service.Name, domain, err)
	}
	return nil
}

// deleteSlices deletes slices, each only while it is as it was seen.
func (r *Reconciler) deleteSlices(ctx context.Context, list []*discoveryv1.EndpointSlice) error {
	var errs []error
	for _, slice := range list {
		r.tracker.ExpectDeletion(slice)
		err := r.Client.Delete(ctx, slice, client.Preconditions{UID: &slice.UID, ResourceVersion: &slice.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			r.tracker.HandleDeletion(slice)
			errs = append(errs, fmt.Errorf("delete EndpointSlice %s/%s: %w", slice.Namespace, slice.Name, err))
		}
	}
	return errors.Join(errs...)
}

// sliceWrites are the writes of the library for one domain, by the operator's client, which
// counts them and checks the lease.
type sliceWrites struct {
	ctx     context.Context //nolint:containedctx // the library passes none, and this lives as long as one call
	client  client.Client
	present []*discoveryv1.EndpointSlice
	// conflict is the first error of a write from an outdated copy.
	conflict error

	discoveryclient.EndpointSliceInterface // the library calls no other method
}

func (w *sliceWrites) note(err error) error {
	if apierrors.IsConflict(err) && w.conflict == nil {
		w.conflict = err
	}
	return err
}

// Create implements EndpointSliceInterface.
func (w *sliceWrites) Create(
	_ context.Context,
	slice *discoveryv1.EndpointSlice,
	_ metav1.CreateOptions,
) (*discoveryv1.EndpointSlice, error) {
	return slice, w.client.Create(w.ctx, slice)
}

// Update implements EndpointSliceInterface.
func (w *sliceWrites) Update(
	_ context.Context,
	slice *discoveryv1.EndpointSlice,
	_ metav1.UpdateOptions,
) (*discoveryv1.EndpointSlice, error) {
	if seen := w.seen(slice.Name); seen != nil { // the library reuses the name of a slice for a new one
		slice.UID, slice.ResourceVersion = seen.UID, seen.ResourceVersion
	}
	return slice, w.note(w.client.Update(w.ctx, slice))
}

// Delete implements EndpointSliceInterface.
func (w *sliceWrites) Delete(_ context.Context, name string, _ metav1.DeleteOptions) error {
	seen := w.seen(name)
	if seen == nil {
		return nil
	}
	err := w.client.Delete(
		w.ctx,
		seen.DeepCopy(),
		client.Preconditions{UID: &seen.UID, ResourceVersion: &seen.ResourceVersion},
	)
	return w.note(client.IgnoreNotFound(err))
}

func (w *sliceWrites) seen(name string) *discoveryv1.EndpointSlice {
	i := slices.IndexFunc(w.present, func(slice *discoveryv1.EndpointSlice) bool { return slice.Name == name })
	if i < 0 {
		return nil
	}
	return w.present[i]
}

// clientset gives the library sliceWrites, and nothing else.
type clientset struct {
	kubernetes.Interface
	sliceWrites *sliceWrites
}

// DiscoveryV1 implements kubernetes.Interface.
func (c clientset) DiscoveryV1() discoveryclient.DiscoveryV1Interface {
	return discovery{sliceWrites: c.sliceWrites}
}

type discovery struct {
	discoveryclient.DiscoveryV1Interface
	sliceWrites *sliceWrites
}

// EndpointSlices implements discoveryclient.DiscoveryV1Interface.
func (d discovery) EndpointSlices(string) discoveryclient.EndpointSliceInterface {
	return d.sliceWrites
}

// nodeLister shows the zones of nodes to the library.
type nodeLister struct {
	corelisters.NodeLister // the library calls no other method
	store                  *store.Store
}

// Get implements corelisters.NodeLister.
func (l nodeLister) Get(name string) (*corev1.Node, error) {
	var row *store.Node
	l.store.View(func(tx store.ReadTx) { row = store.GetNode(tx, name) })
	if row == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if row.Zone != "" {
		node.Labels = map[string]string{corev1.LabelTopologyZone: row.Zone}
	}
	return node, nil
}
