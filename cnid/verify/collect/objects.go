// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/verify"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds"
)

// objects fills the store with everything that a plan for a node is made of.
func (c *Collector) objects(ctx context.Context, s *store.Store) (verify.Input, error) {
	var (
		pods       corev1.PodList
		nodes      corev1.NodeList
		namespaces corev1.NamespaceList
		services   corev1.ServiceList
		slices     discoveryv1.EndpointSliceList
		vpcs       v1alpha1.VPCList
		subnets    v1alpha1.SubnetList
		networks   arktosv1.NetworkList
		shared     v1alpha1.SharedServiceList
		addresses  v1alpha1.AddressList
		pools      v1alpha1.ExternalPoolList
		external   v1alpha1.ExternalAddressList
		grants     v1alpha1.HostAccessList
		ranges     networkingv1.ServiceCIDRList
		claims     v1alpha1.VNIClaimList
		calls      v1alpha1.RollCallList
	)
	// Addresses before pods: a pod that is made meanwhile lacks its addresses
	// rather than the other way round, which would look like a leak.
	for _, list := range []client.ObjectList{&claims, &calls, &vpcs, &subnets, &addresses, &pools, &external, &grants, &ranges, &nodes, &namespaces, &networks, &shared, &services, &slices, &pods} {
		if err := c.api.List(ctx, list); err != nil {
			return verify.Input{}, fmt.Errorf("list objects: %w", err)
		}
	}
	in := verify.Input{Pods: statuses(pods.Items)}
	err := s.Update(func(tx store.Tx) error {
		put(tx, &in, claims.Items, kinds.VNIClaim, store.PutVNIClaim)
		put(tx, &in, calls.Items, kinds.RollCall, store.PutRollCall)
		put(tx, &in, vpcs.Items, kinds.VPC, store.PutVPC)
		put(tx, &in, subnets.Items, kinds.Subnet, store.PutSubnet)
		put(tx, &in, addresses.Items, kinds.Address, store.PutAddress)
		put(tx, &in, pools.Items, kinds.ExternalPool, store.PutExternalPool)
		put(tx, &in, external.Items, kinds.ExternalAddress, store.PutExternalAddress)
		put(tx, &in, grants.Items, kinds.HostAccess, store.PutHostAccess)
		put(tx, &in, ranges.Items, kinds.ServiceCIDR, store.PutServiceCIDR)
		put(tx, &in, nodes.Items, kinds.Node, store.PutNode)
		put(tx, &in, namespaces.Items, kinds.Namespace, store.PutNamespace)
		put(tx, &in, networks.Items, kinds.Network, store.PutNetwork)
		put(tx, &in, shared.Items, kinds.SharedService, store.PutSharedService)
		put(tx, &in, services.Items, kinds.Service, store.PutService)
		put(tx, &in, slices.Items, kinds.EndpointSlice, store.PutEndpointSlice)
		put(tx, &in, pods.Items, kinds.Pod, store.PutPod)
		return nil
	})
	return in, err
}

// pointer is the type of the objects in a list of T.
type pointer[T any] interface {
	*T
	client.Object
}

// put writes the rows of the objects. What can't be a row beside the others is
// itself a difference.
func put[T any, P pointer[T], R any](tx store.Tx, in *verify.Input, items []T, convert func(P) (*R, error), put func(store.Tx, *R) error) {
	for i := range items {
		object := P(&items[i])
		row, err := convert(object)
		if err == nil && row != nil {
			err = put(tx, row)
		}
		if err != nil {
			in.Refused = append(in.Refused, verify.Refused{Object: fmt.Sprintf("%T %s", items[i], client.ObjectKeyFromObject(object)), Why: err.Error()})
		}
	}
}

func statuses(pods []corev1.Pod) map[string]verify.Pod {
	all := map[string]verify.Pod{}
	for i := range pods {
		status := verify.Pod{Running: pods[i].Status.Phase == corev1.PodRunning}
		for _, podIP := range pods[i].Status.PodIPs {
			if ip, err := netip.ParseAddr(podIP.IP); err == nil {
				status.IPs = append(status.IPs, ip)
			}
		}
		all[string(pods[i].UID)] = status
	}
	return all
}
