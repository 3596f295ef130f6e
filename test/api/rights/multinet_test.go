// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rights_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	danmiov1 "github.com/alioth-net/alioth/api/danmio/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/api/chart"
)

// outsideNetwork is a network with its conditions.
type outsideNetwork struct {
	client.Object
	conditions *[]metav1.Condition
}

// outsideNetworks returns networks of a tenant in both groups. TenantNetworks have no device.
func outsideNetworks() []outsideNetwork {
	spec := func(octet int, device string) danmv1.NetworkSpec {
		return danmv1.NetworkSpec{
			NetworkID: "lan", NetworkType: "macvlan",
			Options: danmv1.NetworkOptions{HostDevice: device, CIDR: fmt.Sprintf("10.30.%d.0/24", octet)},
		}
	}
	at := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "rights", Name: name} }
	danmNet, danmNetIO := &danmv1.DanmNet{ObjectMeta: at("one"), Spec: spec(1, "ens5")}, &danmiov1.DanmNet{ObjectMeta: at("two"), Spec: spec(2, "ens5")}
	tenant, tenantIO := &danmv1.TenantNetwork{ObjectMeta: at("one"), Spec: spec(3, "")}, &danmiov1.TenantNetwork{ObjectMeta: at("two"), Spec: spec(4, "")}
	cluster := &danmv1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: "rights-one"}, Spec: spec(5, "ens5")}
	clusterIO := &danmiov1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: "rights-two"}, Spec: spec(6, "ens5")}
	return []outsideNetwork{
		{danmNet, &danmNet.Status.Conditions},
		{danmNetIO, &danmNetIO.Status.Conditions},
		{tenant, &tenant.Status.Conditions},
		{tenantIO, &tenantIO.Status.Conditions},
		{cluster, &cluster.Status.Conditions},
		{clusterIO, &clusterIO.Status.Conditions},
	}
}

// attachOutside has the operator serve networks outside of VPCs, and a pod in one of them.
func attachOutside(t *testing.T, admin client.Client, server *apiserver.Server) {
	t.Helper()
	devices := []danmv1.HostDevice{{Name: "ens4", VNIType: danmv1.VNITypeVLAN, VNIRange: "100-110"}}
	configs := []client.Object{
		&danmv1.TenantConfig{ObjectMeta: metav1.ObjectMeta{Name: "rights"}, HostDevices: devices},
		&danmiov1.TenantConfig{ObjectMeta: metav1.ObjectMeta{Name: "rights"}, HostDevices: devices},
	}
	for _, config := range configs {
		if err := admin.Create(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	networks := outsideNetworks()
	for _, network := range networks {
		// A TenantNetwork is forbidden until admission has the offer of the TenantConfig.
		until(t, fmt.Sprintf("%T %s is created", network.Object, network.GetName()), func(ctx context.Context) (bool, error) {
			err := admin.Create(ctx, network.Object)
			return err == nil, ignoreNotReady(err)
		})
	}
	for _, network := range networks {
		until(t, fmt.Sprintf("%T %s is Ready", network.Object, network.GetName()), func(ctx context.Context) (bool, error) {
			err := admin.Get(ctx, client.ObjectKeyFromObject(network.Object), network.Object)
			return meta.IsStatusConditionTrue(*network.conditions, v1alpha1.ReadyCondition), err
		})
	}
	changeLink(t, admin, networks)
	pod := newPod("outside", "")
	pod.Labels = nil
	pod.Annotations = map[string]string{annotations.InterfacesKey: `[{"network": "one", "ip": "dynamic"}]`}
	if err := admin.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	until(t, "the pod has its interface", func(ctx context.Context) (bool, error) {
		err := admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		return pod.Annotations[v1alpha1.AttachmentsAnnotation] != "", err
	})
	serveOutside(t, admin, pod)
	if err := admin.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	release(t, admin, server, pod)
	for _, network := range networks {
		// Admission refuses while the status has the pod.
		until(t, fmt.Sprintf("%T %s is deleted", network.Object, network.GetName()), func(ctx context.Context) (bool, error) {
			err := admin.Delete(ctx, network.Object)
			return client.IgnoreNotFound(err) == nil, ignoreNotReady(err)
		})
	}
	until(t, "the links of the networks are gone", func(ctx context.Context) (bool, error) {
		var links v1alpha1.HostLinkList
		err := admin.List(ctx, &links)
		return len(links.Items) == 0, err
	})
	until(t, "the numbers of the networks' domains are released", func(ctx context.Context) (bool, error) {
		var claims v1alpha1.DomainClaimList
		err := admin.List(ctx, &claims)
		return len(claims.Items) == 0, err
	})
	until(t, "the numbers of the TenantNetworks are released", func(ctx context.Context) (bool, error) {
		var claims v1alpha1.HostVNIClaimList
		err := admin.List(ctx, &claims)
		return len(claims.Items) == 0, err
	})
	for _, config := range configs {
		if err := admin.Delete(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
}

// changeLink changes the MTU of the networks with numbers, and waits until their links, which
// the nodes make, have it.
func changeLink(t *testing.T, admin client.Client, networks []outsideNetwork) {
	t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"Options":{"mtu":1400}}}`))
	links := 0
	for _, network := range networks {
		if meta.FindStatusCondition(*network.conditions, v1alpha1.ProfileCondition) == nil {
			continue
		}
		links++
		if err := admin.Patch(t.Context(), network.Object, patch); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the links of the networks have the MTU", func(ctx context.Context) (bool, error) {
		var list v1alpha1.HostLinkList
		err := admin.List(ctx, &list)
		changed := slices.DeleteFunc(list.Items, func(l v1alpha1.HostLink) bool { return l.Spec.MTU != 1400 })
		return links > 0 && len(changed) == links, err
	})
}

// serveOutside has the operator write the endpoints of a Service over the pod's network,
// change them, and remove them.
func serveOutside(t *testing.T, admin client.Client, pod *corev1.Pod) {
	t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "rights", Name: "over-network", Annotations: map[string]string{
			annotations.EndpointSelectorKey: `{"app": "outside"}`, annotations.NetworkKey: "DanmNet/one",
		}},
		Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	patch := func(object client.Object, text string) {
		t.Helper()
		if err := admin.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
			t.Fatal(err)
		}
	}
	patch(pod, `{"metadata":{"labels":{"app":"outside"}}}`)
	if err := admin.Create(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	leads := func(what string, found bool, port int32) {
		t.Helper()
		until(t, what, func(ctx context.Context) (bool, error) {
			var slices discoveryv1.EndpointSliceList
			if err := admin.List(ctx, &slices, client.InNamespace("rights"), client.MatchingLabels{discoveryv1.LabelManagedBy: v1alpha1.EndpointsManager}); err != nil {
				return false, err
			}
			object := &corev1.Endpoints{} //nolint:staticcheck // Endpoints are written for older programs
			if err := admin.Get(ctx, client.ObjectKeyFromObject(service), object); client.IgnoreNotFound(err) != nil {
				return false, err
			}
			if !found {
				return len(slices.Items) == 0 && object.UID == "", nil
			}
			written := len(object.Subsets) == 1 && object.Subsets[0].Ports[0].Port == port
			for _, slice := range slices.Items { // the IPv6 slice has neither endpoints nor ports
				written = written && (slice.AddressType == discoveryv1.AddressTypeIPv6 || len(slice.Ports) == 1 && *slice.Ports[0].Port == port)
			}
			return written && len(slices.Items) > 0, nil
		})
	}
	leads("the Service has endpoints", true, 80)
	patch(service, `{"metadata":{"labels":{"team":"a"}},"spec":{"ports":[{"port":80,"targetPort":8080}]}}`)
	leads("the endpoints have the new port", true, 8080)
	patch(service, `{"metadata":{"annotations":null}}`)
	leads("the endpoints are removed", false, 0)
	if err := admin.Delete(t.Context(), service); err != nil {
		t.Fatal(err)
	}
}

// release reports as the node does, which does not run here, that the interface of a pod is
// gone, and releases its addresses. The operator has made the claim, with the pod as owner, and deleted it.
func release(t *testing.T, admin client.Client, server *apiserver.Server, pod *corev1.Pod) {
	t.Helper()
	claim := new(v1alpha1.AttachmentClaim)
	until(t, "the claim of the pod's interface is deleted", func(ctx context.Context) (bool, error) {
		var claims v1alpha1.AttachmentClaimList
		if err := admin.List(ctx, &claims, client.InNamespace(pod.Namespace)); err != nil {
			return false, err
		}
		if len(claims.Items) != 1 || len(claims.Items[0].OwnerReferences) != 1 || claims.Items[0].OwnerReferences[0].UID != pod.UID {
			return false, fmt.Errorf("the claims are %+v, want one that the pod owns", claims.Items)
		}
		claim = &claims.Items[0]
		return claim.DeletionTimestamp != nil, nil
	})
	config := server.Config()
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + chart.Namespace + ":alioth-cnid", Groups: []string{"system:authenticated"},
		Extra: map[string][]string{"authentication.kubernetes.io/node-name": {pod.Spec.NodeName}},
	}
	daemon, err := client.New(config, client.Options{Scheme: admin.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	report := client.RawPatch(types.MergePatchType, []byte(`{"status":{"released":true}}`))
	if err := daemon.Status().Patch(t.Context(), claim, report); err != nil {
		t.Fatal(err)
	}
	var addresses v1alpha1.AddressList
	if err := admin.List(t.Context(), &addresses, client.MatchingFields{"spec.network.uid": claim.Spec.Network.UID}); err != nil {
		t.Fatal(err)
	}
	for i := range addresses.Items {
		address := &addresses.Items[i]
		if err := daemon.Delete(t.Context(), address, client.Preconditions{UID: &address.UID}); err != nil {
			t.Fatal(err)
		}
	}
}
