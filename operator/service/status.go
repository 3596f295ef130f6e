// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// statusPatch is a merge patch of a Service's status subresource. The UID makes the
// API server refuse it for a successor of the same name.
type statusPatch struct {
	Metadata struct {
		UID types.UID `json:"uid"`
	} `json:"metadata"`
	Status struct {
		LoadBalancer struct {
			// Ingress is nil to remove all.
			Ingress []corev1.LoadBalancerIngress `json:"ingress"`
		} `json:"loadBalancer"`
	} `json:"status"`
}

// publishedIPs returns the addresses in the status of a Service.
func publishedIPs(service *corev1.Service) []netip.Addr {
	var ips []netip.Addr
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		if ip, err := netip.ParseAddr(ingress.IP); err == nil {
			ips = append(ips, ip.Unmap())
		}
	}
	return ips
}

// ingressOf returns the entries of a status for addresses.
func ingressOf(ips []netip.Addr) []corev1.LoadBalancerIngress {
	var all []corev1.LoadBalancerIngress
	for _, ip := range ips {
		all = append(all, corev1.LoadBalancerIngress{IP: ip.String(), IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)})
	}
	return all
}

// hide removes addresses from the status of a Service that may have a new holder.
func (r *Reconciler) hide(ctx context.Context, service *corev1.Service, ips []netip.Addr) error {
	return r.show(
		ctx,
		service,
		slices.DeleteFunc(slices.Clone(service.Status.LoadBalancer.Ingress), func(ingress corev1.LoadBalancerIngress) bool {
			ip, err := netip.ParseAddr(ingress.IP)
			return err == nil && slices.Contains(ips, ip)
		}),
	)
}

// show writes the status of a Service, if it differs. It returns nil for a deleted Service.
func (r *Reconciler) show(ctx context.Context, service *corev1.Service, ingress []corev1.LoadBalancerIngress) error {
	if equality.Semantic.DeepEqual(ingress, service.Status.LoadBalancer.Ingress) {
		return nil
	}
	var patch statusPatch
	patch.Metadata.UID, patch.Status.LoadBalancer.Ingress = service.UID, ingress
	text, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode the status of Service %s/%s: %w", service.Namespace, service.Name, err)
	}
	object := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name}}
	err = r.Client.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, text))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of Service %s/%s: %w", service.Namespace, service.Name, err)
	}
	return nil
}
