// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rights_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/soak"
)

// creators make pods at the same time: a thousand in `make soak`, three hundred elsewhere.
const creators, crowd, smallCrowd = 20, 1000, 300

// TestAddressClaims_ManyPodsOneNetwork_AllDistinct: no two pods hold one address, and the operator
// does not try much more often than there are addresses.
func TestAddressClaims_ManyPodsOneNetwork_AllDistinct(t *testing.T) {
	size := soak.Or(t, crowd, smallCrowd)
	admin, server := install(t)
	operate(t, server.Config())
	prefix := netip.MustParsePrefix("10.240.0.0/16")
	makeCrowd(t, admin, prefix, size)
	until(t, "each pod has its address", func(ctx context.Context) (bool, error) {
		var pods corev1.PodList
		err := admin.List(ctx, &pods, client.InNamespace(name))
		for i := range pods.Items {
			if pods.Items[i].Annotations[v1alpha1.AttachmentsAnnotation] == "" {
				return false, err
			}
		}
		return len(pods.Items) == size, err
	})
	var addresses v1alpha1.AddressList
	if err := admin.List(t.Context(), &addresses); err != nil {
		t.Fatal(err)
	}
	holders := map[netip.Addr]string{}
	for i := range addresses.Items {
		spec := &addresses.Items[i].Spec
		if spec.Network == nil {
			continue // the node's own
		}
		ip, err := netip.ParseAddr(spec.IP)
		if other := holders[ip]; err != nil || other != "" || !prefix.Contains(ip) {
			t.Errorf("pod %s holds %s, as %q does, error %v", spec.Holder.Name, spec.IP, other, err)
		}
		holders[ip] = spec.Holder.Name
	}
	if len(holders) != size {
		t.Errorf("%d addresses are held, want %d", len(holders), size)
	}
	if tries := creations(t, server); tries > len(addresses.Items)*105/100 {
		t.Errorf("the operator tried %d times for %d addresses", tries, len(addresses.Items))
	}
}

// makeCrowd makes a network of all namespaces, and size pods of it on one node.
func makeCrowd(t *testing.T, admin client.Client, prefix netip.Prefix, size int) {
	t.Helper()
	network := &danmv1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: "crowd"}, Spec: danmv1.NetworkSpec{
		NetworkID: "crowd", NetworkType: "macvlan", Options: danmv1.NetworkOptions{HostDevice: "ens5", CIDR: prefix.String()},
	}}
	for _, object := range []client.Object{
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, network, crowdPod(0),
	} {
		until(t, fmt.Sprintf("%T %s is created", object, object.GetName()), func(ctx context.Context) (bool, error) {
			err := admin.Create(ctx, object)
			return err == nil, ignoreNotReady(err)
		})
	}
	until(t, "the network is Ready", func(ctx context.Context) (bool, error) {
		err := admin.Get(ctx, client.ObjectKeyFromObject(network), network)
		return meta.IsStatusConditionTrue(network.Status.Conditions, v1alpha1.ReadyCondition), err
	})
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(creators)
	for i := 1; i < size; i++ {
		group.Go(func() error { return admin.Create(ctx, crowdPod(i)) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

func crowdPod(i int) *corev1.Pod {
	pod := newPod(fmt.Sprintf("crowd-%d", i), "")
	pod.Labels, pod.Annotations = nil, map[string]string{annotations.InterfacesKey: `[{"clusterNetwork": "crowd", "ip": "dynamic"}]`}
	return pod
}

// creations is how often the operator tried to create an Address.
func creations(t *testing.T, server *apiserver.Server) (tries int) {
	t.Helper()
	requests, err := server.Requests()
	if err != nil {
		t.Fatal(err)
	}
	for _, request := range requests {
		if request.Right == "create addresses.alioth.dev" {
			tries++
		}
	}
	return tries
}
