// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

var _ = kept(Report{
	Name: "many-records", Source: "coredns/coredns#5362", Kind: names,
	Input: "A name has so many addresses that the answer fits into no datagram, and pods ask for it.",
	Want:  "The resolver asks again over TCP, and has all addresses.",
	Run: func(t *testing.T, l *lab) {
		service := l.service(t, func(s *corev1.Service) {
			s.Spec.ClusterIP, s.Spec.IPFamilyPolicy = corev1.ClusterIPNone, ptr.To(corev1.IPFamilyPolicySingleStack)
		})
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: service.Namespace, Name: service.Name, Labels: map[string]string{discoveryv1.LabelServiceName: service.Name},
			},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("tcp"), Port: ptr.To[int32](7001)}},
		}
		const records = 200
		for i := range records {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.10.3.%d", i+1)}})
		}
		l.Make(t, slice)
		for _, from := range l.clients() {
			until(t, fmt.Sprintf("%d addresses in %s", records, from.Name), func(ctx context.Context) (bool, string, error) {
				out, err := l.in(from)(ctx, "resolve", service.Name+"."+service.Namespace+".svc.cluster.local")
				n := len(strings.Fields(out))
				return n == records, fmt.Sprintf("%d, %v", n, err), nil
			})
		}
	},
})
