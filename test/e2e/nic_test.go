// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// nicSpec has a first subnet for both families, a second subnet with reserved addresses, and a
// third subnet that two pods fill.
func nicSpec() scene.TenantSpec {
	return scene.TenantSpec{
		Name:    "nic",
		Network: "vpc-1",
		CIDRs:   []string{"10.10.0.0/16", "fd10:10::/48"},
		Subnets: []scene.Range{
			{Name: "net1", CIDRs: []string{"10.10.1.0/24", "fd10:10:0:1::/64"}},
			{Name: "net2", CIDRs: []string{"10.10.2.0/24"}, Reserved: []string{"10.10.2.2-10.10.2.9"}},
			{Name: "tiny", CIDRs: []string{"10.10.3.0/29"}, Reserved: []string{"10.10.3.4-10.10.3.6"}},
		},
	}
}

func TestNICAnnotation_EachForm_AddressesAsAsked(t *testing.T) {
	t.Parallel()
	e := start(t)
	tenant := e.Tenant(t, nicSpec())
	peer := tenant.Pod("peer")
	e.Run(t, peer)

	tests := map[string]struct {
		nic string
		// in are the ranges that the pod's addresses must lie in, one each.
		in []string
		// subnet as a user would write it.
		subnet string
	}{
		"without an annotation, the first subnet and both its families": {"", []string{"10.10.1.0/24", "fd10:10:0:1::/64"}, "net1"},
		"only a name changes nothing but the name":                      {`{"name": "tenant0"}`, []string{"10.10.1.0/24", "fd10:10:0:1::/64"}, "net1"},
		"a subnet by its name in the VPC":                               {`{"subnet": "net2"}`, []string{"10.10.2.0/24"}, "net2"},
		"a subnet by its object name":                                   {`{"subnet": "` + tenant.VPC.Name + `-net2"}`, []string{"10.10.2.0/24"}, "net2"},
		"one address, and the other family is chosen":                   {`{"ip": "10.10.1.200"}`, []string{"10.10.1.200/32", "fd10:10:0:1::/64"}, "net1"},
		"one address of each family": {
			`{"ip": "10.10.1.201,fd10:10:0:1::c9"}`,
			[]string{"10.10.1.201/32", "fd10:10:0:1::c9/128"},
			"net1",
		},
		"an address decides the subnet": {`{"ip": "10.10.2.77"}`, []string{"10.10.2.77/32"}, "net2"},
		"an address in the subnet asked for": {
			`{"name": "eth0", "ip": "10.10.2.78", "subnet": "net2"}`,
			[]string{"10.10.2.78/32"},
			"net2",
		},
	}
	for i, name := range sortedKeys(tests) {
		tt := tests[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := tenant.Pod(fmt.Sprintf("row-%d", i), scene.WithNIC(tt.nic))
			e.Run(t, pod)
			e.checkAddresses(t, pod, tt.in)
			e.checkAnnotations(t, pod, tenant.VPC.Name, tt.subnet)
			e.expectAnswers(t, peer, wantPod(pod))
			if strings.Contains(tt.nic, "tenant0") {
				e.InPod(t, pod, "ip", "link", "show", "dev", "tenant0")
			}
		})
	}
}

// checkAddresses requires one address in each range and no other, held by an
// Address object each.
func (e *env) checkAddresses(t *testing.T, pod *corev1.Pod, ranges []string) {
	t.Helper()
	ips := scene.IPs(pod)
	for _, text := range ranges {
		if !slices.ContainsFunc(ips, netip.MustParsePrefix(text).Contains) {
			t.Errorf("pod has %v, none of it in %s", ips, text)
		}
	}
	if len(ips) != len(ranges) {
		t.Errorf("pod has %v, want one address in each of %v", ips, ranges)
	}
	held, err := e.Held(within(t, patience), pod.UID)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(ips, netip.Addr.Compare)
	if !slices.Equal(held, ips) {
		t.Errorf("Address objects hold %v for the pod, its status says %v", held, ips)
	}
}

// checkAnnotations requires the annotations that the operator writes on a pod, in the formats of
// the Arktos integration.
func (e *env) checkAnnotations(t *testing.T, pod *corev1.Pod, vpc, subnet string) {
	t.Helper()
	want := fmt.Sprintf(`{"vpc": %q, "net": %q, "ip": %q}`, vpc, subnet, scene.IPs(pod)[0])
	if got := pod.Annotations[arktosv1.UserInputAnnotation]; got != want {
		t.Errorf("annotation %s is %s, want %s", arktosv1.UserInputAnnotation, got, want)
	}
	if got := pod.Annotations[arktosv1.ReadinessAnnotation]; got != "true" {
		t.Errorf("annotation %s is %q, want \"true\"", arktosv1.ReadinessAnnotation, got)
	}
	if pod.Annotations[v1alpha1.AttachmentsAnnotation] == "" {
		t.Errorf("annotation %s is missing", v1alpha1.AttachmentsAnnotation)
	}
}

func TestNICAnnotation_Wrong_PodRefusedWithReason(t *testing.T) {
	t.Parallel()
	e := start(t)
	tenant := e.Tenant(t, nicSpec())
	e.Run(t, tenant.Pod("holder", scene.WithNIC(`{"ip": "10.10.1.100"}`)),
		tenant.Pod("fill-1", scene.WithNIC(`{"subnet": "tiny"}`)), tenant.Pod("fill-2", scene.WithNIC(`{"subnet": "tiny"}`)))

	tests := map[string]struct{ nic, reason, message string }{
		"text that is no JSON":             {`{"ip": `, v1alpha1.NICInvalidReason, "JSON"},
		"JSON that is no object":           {`["10.10.1.5"]`, v1alpha1.NICInvalidReason, "JSON"},
		"an unknown key":                   {`{"address": "10.10.1.5"}`, v1alpha1.NICInvalidReason, "address"},
		"an address that is none":          {`{"ip": "10.10.1"}`, v1alpha1.NICInvalidReason, "10.10.1"},
		"two addresses of one family":      {`{"ip": "10.10.1.5,10.10.1.6"}`, v1alpha1.NICInvalidReason, "family"},
		"a subnet that does not exist":     {`{"subnet": "net9"}`, v1alpha1.SubnetNotFoundReason, "net9"},
		"an address in no subnet":          {`{"ip": "10.10.200.5"}`, v1alpha1.IPOutsideVPCReason, "10.10.200.5"},
		"an address in another subnet":     {`{"ip": "10.10.1.5", "subnet": "net2"}`, v1alpha1.IPOutsideSubnetReason, "10.10.1.5"},
		"the network address":              {`{"ip": "10.10.1.0"}`, v1alpha1.IPReservedReason, "10.10.1.0"},
		"the broadcast address":            {`{"ip": "10.10.1.255"}`, v1alpha1.IPReservedReason, "10.10.1.255"},
		"the gateway":                      {`{"ip": "10.10.1.1"}`, v1alpha1.IPReservedReason, "10.10.1.1"},
		"a reserved address":               {`{"ip": "10.10.2.5"}`, v1alpha1.IPReservedReason, "10.10.2.5"},
		"an address that a live pod holds": {`{"ip": "10.10.1.100"}`, v1alpha1.IPInUseReason, "holder"},
		"a subnet without a free address":  {`{"subnet": "tiny"}`, v1alpha1.SubnetExhaustedReason, "tiny"},
	}
	for i, name := range sortedKeys(tests) {
		tt := tests[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := tenant.Pod(fmt.Sprintf("error-%d", i), scene.WithNIC(tt.nic))
			e.Make(t, pod)
			e.expectRefused(t, pod, tt.reason, tt.message)
		})
	}
}

func TestNetwork_Unusable_PodRefusedWithReason(t *testing.T) {
	t.Parallel()
	e := start(t)
	mine, other := e.Tenant(t, nicSpec()), e.Tenant(t, stage.Overlapping("other"))
	mineNS := mine.Namespace.Name
	notAllowed := scene.Network(mineNS, "not-allowed", other.VPC.Name)
	otherType := scene.Network(mineNS, "other-type", mine.VPC.Name)
	otherType.Spec.Type = "flat"
	e.Make(t, notAllowed, otherType, scene.Network(other.Namespace.Name, "theirs", other.VPC.Name))

	tests := map[string]struct{ network, reason, message string }{
		"a Network that does not exist":           {"nowhere", v1alpha1.NetworkNotFoundReason, "nowhere"},
		"a Network of another tenant":             {"theirs", v1alpha1.NetworkNotFoundReason, "theirs"},
		"a Network whose VPC does not allow them": {"not-allowed", v1alpha1.NetworkNotReadyReason, mine.Name},
		"a Network of a type that Alioth ignores": {"other-type", v1alpha1.NetworkTypeReason, "flat"},
	}
	for i, name := range sortedKeys(tests) {
		tt := tests[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := scene.Pod(mineNS, fmt.Sprintf("error-%d", i), scene.InNetwork(tt.network))
			e.Make(t, pod)
			e.expectRefused(t, pod, tt.reason, tt.message)
		})
	}
}

func (e *env) expectRefused(t *testing.T, pod *corev1.Pod, reason, message string) {
	t.Helper()
	e.ExpectRefused(t, pod, reason, message)
}

func TestRefusedPod_CauseGone_Starts(t *testing.T) {
	t.Parallel()
	e := start(t)

	t.Run("a missing subnet appears", func(t *testing.T) {
		t.Parallel()
		tenant := e.Tenant(t, nicSpec())
		pod := tenant.Pod("waiting", scene.WithNIC(`{"subnet": "late"}`))
		e.Make(t, pod)
		e.expectRefused(t, pod, v1alpha1.SubnetNotFoundReason, "late")
		late := scene.Subnet(tenant.VPC.Name, "late", "10.10.9.0/24")
		tenant.Subnets = append(tenant.Subnets, late)
		if err := e.Create(within(t, patience), late); err != nil {
			t.Fatal(err)
		}
		e.becomesReady(t, pod)
	})
	t.Run("the VPC comes to allow the tenant", func(t *testing.T) {
		t.Parallel()
		mine, other := e.Tenant(t, nicSpec()), e.Tenant(t, stage.Overlapping("other"))
		e.Make(t, scene.Network(mine.Namespace.Name, "shared", other.VPC.Name))
		pod := scene.Pod(mine.Namespace.Name, "waiting", scene.InNetwork("shared"))
		e.Make(t, pod)
		e.expectRefused(t, pod, v1alpha1.NetworkNotReadyReason, "")
		before := other.VPC.DeepCopy()
		other.VPC.Spec.AllowedTenants = append(other.VPC.Spec.AllowedTenants, mine.Name)
		if err := e.Client.Patch(within(t, patience), other.VPC, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		e.becomesReady(t, pod)
	})
	t.Run("the pod that held the address is deleted", func(t *testing.T) {
		t.Parallel()
		tenant := e.Tenant(t, nicSpec())
		holder := tenant.Pod("holder", scene.WithNIC(`{"ip": "10.10.1.50"}`))
		e.Run(t, holder)
		successor := tenant.Pod("successor", scene.WithNIC(`{"ip": "10.10.1.50"}`))
		e.Make(t, successor)
		e.expectRefused(t, successor, v1alpha1.IPInUseReason, "holder")
		if err := e.Delete(within(t, patience), holder); err != nil {
			t.Fatal(err)
		}
		e.becomesReady(t, successor)
		if got := scene.IP(successor, false); got != netip.MustParseAddr("10.10.1.50") {
			t.Errorf("successor has %v, want 10.10.1.50", got)
		}
	})
}

// becomesReady waits until a pod that was created earlier is Ready.
func (e *env) becomesReady(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	if err := e.WaitReady(within(t, patience), pods...); err != nil {
		t.Fatal(err)
	}
}
