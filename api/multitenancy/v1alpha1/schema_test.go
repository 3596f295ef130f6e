// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	acnv1alpha1 "github.com/alioth-net/alioth/api/acn/v1alpha1"
	"github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/test/api/apiserver"
)

var server apiserver.Shared

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }

// resources maps each kind to its resource.
var resources = map[string]string{
	"PodNetwork": "podnetworks", "PodNetworkInstance": "podnetworkinstances", "NodeInfo": "nodeinfo",
	"MultitenantPodNetworkConfig": "multitenantpodnetworkconfigs", "MultiTenantPodNetworkConfig": "multitenantpodnetworkconfigs",
}

var groups = []string{v1alpha1.GroupVersion.Group, acnv1alpha1.GroupVersion.Group}

// object is one of a kind in the API.
type object struct {
	*unstructured.Unstructured
	resource dynamic.ResourceInterface
}

// parse reads a manifest, whose group is %s if it stands for both.
func parse(t *testing.T, manifest string) object {
	t.Helper()
	parsed := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(manifest), &parsed.Object); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(server.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	of := client.Resource(parsed.GroupVersionKind().GroupVersion().WithResource(resources[parsed.GetKind()]))
	if parsed.GetNamespace() == "" {
		return object{parsed, of}
	}
	return object{parsed, of.Namespace(parsed.GetNamespace())}
}

// create makes an object from a manifest, which has no unknown fields, and removes it with
// the test.
func create(t *testing.T, manifest string) (object, error) {
	t.Helper()
	wanted := parse(t, manifest)
	created, err := wanted.resource.Create(t.Context(), wanted.Unstructured, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		return object{}, err
	}
	t.Cleanup(func() {
		if err := wanted.resource.Delete(context.WithoutCancel(t.Context()), created.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return object{created, wanted.resource}, nil
}

func mustCreate(t *testing.T, manifest string) object {
	t.Helper()
	created, err := create(t, manifest)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// with returns a copy with a field that is set.
func (o object) with(t *testing.T, value any, path ...string) object {
	t.Helper()
	copied := o.DeepCopy()
	if err := unstructured.SetNestedField(copied.Object, value, path...); err != nil {
		t.Fatal(err)
	}
	return object{copied, o.resource}
}

// change writes spec, or with "status" the status.
func (o object) change(t *testing.T, through ...string) (object, error) {
	t.Helper()
	options := metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict}
	changed, err := o.resource.Update(t.Context(), o.Unstructured, options, through...)
	return object{changed, o.resource}, err
}

// field returns a field as a text.
func (o object) field(path ...string) string {
	value, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
	return fmt.Sprint(value)
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Error(err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got %v, want %q", err, want)
	}
}

const (
	podNetwork = "{apiVersion: %s/v1alpha1, kind: PodNetwork, metadata: {name: pn}, spec: "
	instance   = "{apiVersion: %s/v1alpha1, kind: PodNetworkInstance, metadata: {namespace: default, name: pni}, spec: "
	// subnetPath is the resource ID of a subnet in the cloud.
	subnetPath = "/subscriptions/5f1b/resourceGroups/rg/providers/Microsoft.Network/virtualNetworks/vnet/subnets/"
)

// TestNodeIPAMObject_WrongValue_Refused also applies manifests in the form that CNS takes.
func TestNodeIPAMObject_WrongValue_Refused(t *testing.T) {
	for _, tt := range []struct{ name, manifest, want string }{
		{"a PodNetwork of CNS", podNetwork + "{networkID: 0b1d7a62-8c41-4f0e, subnetResourceID: " + subnetPath + "Pods_1, subnetGUID: 7d, deviceType: acn.azure.com/vnet-nic, subnetAllocationMode: PrefixBlock}}", ""},
		{"an older PodNetwork of CNS", podNetwork + "{vnetGUID: 0b1d7a62, subnetResourceID: net1, subnetGUID: 7d}}", ""},
		{"a PodNetwork of InfiniBand", podNetwork + "{networkID: '0x8001', deviceType: acn.azure.com/infiniband-nic}}", ""},
		{"an empty PodNetwork", podNetwork + "{}}", ""},
		{"no reserved addresses", podNetwork + "{maxReservedIPs: 0}}", ""},
		{"a path to something else", podNetwork + "{subnetResourceID: " + subnetPath + "}}", "or a path that ends with /subnets/<name>"},
		{"a path that ends elsewhere", podNetwork + "{subnetResourceID: " + subnetPath + "net1/ips}}", "or a path that ends with /subnets/<name>"},
		{"another device", podNetwork + "{deviceType: acn.azure.com/gpu-nic}}", "acn.azure.com/infiniband-nic"},
		{"another mode", podNetwork + "{subnetAllocationMode: Block}}", "PrefixBlock"},
		{"too many reserved addresses", podNetwork + "{maxReservedIPs: 4097}}", "less than or equal to 4096"},
		{"fewer than none", podNetwork + "{maxReservedIPs: -1}}", "greater than or equal to 0"},
		{"an unknown field", podNetwork + "{subnet: net1}}", "unknown field"},

		{"an instance of CNS", instance + "{podNetworkConfigs: [{podNetwork: a, podIPReservationSize: 2}, {podNetwork: b}], defaultDenyACL: true}}", ""},
		{"an older instance of CNS", instance + "{podnetwork: a, podIPReservationSize: 1}}", ""},
		{"an empty instance", instance + "{}}", ""},
		{"one address", instance + "{podNetworkConfigs: [{podNetwork: a, podIPReservationSize: 1, ipConstraint: 10.0.0.9}]}}", ""},
		{"one address in CIDR notation", instance + "{podNetworkConfigs: [{podNetwork: a, podIPReservationSize: 1, ipConstraint: 10.0.0.9/32}]}}", ""},
		{"one address for two", instance + "{podNetworkConfigs: [{podNetwork: a, podIPReservationSize: 2, ipConstraint: 10.0.0.9}]}}", "needs podIPReservationSize 1"},
		{"one address for nothing", instance + "{podNetworkConfigs: [{podNetwork: a, ipConstraint: 10.0.0.9}]}}", "needs podIPReservationSize 1"},
		{"a range", instance + "{podNetworkConfigs: [{podNetwork: a, podIPReservationSize: 1, ipConstraint: 10.0.0.0/24}]}}", "must be one IPv4 address"},
		{"an address of IPv6", instance + "{podNetworkConfigs: [{podNetwork: a, podIPReservationSize: 1, ipConstraint: 'fd00::9'}]}}", "must be one IPv4 address"},
		{"no address", instance + "{podNetworkConfigs: [{podNetwork: a, podIPReservationSize: 1, ipConstraint: ten}]}}", "must be one IPv4 address"},
		{"fewer than no addresses", instance + "{podNetworkConfigs: [{podNetwork: a, podIPReservationSize: -1}]}}", "greater than or equal to 0"},
		{"an interface in nothing", instance + "{podNetworkConfigs: [{podIPReservationSize: 1}]}}", "podNetwork: Required value"},
	} {
		for _, group := range groups {
			t.Run(tt.name+" of "+group, func(t *testing.T) {
				_, err := create(t, fmt.Sprintf(tt.manifest, group))
				wantError(t, err, tt.want)
			})
		}
	}
}

func TestPodNetwork_EmptySpec_DefaultsSet(t *testing.T) {
	for _, group := range groups {
		created := mustCreate(t, fmt.Sprintf(podNetwork, group)+"{}}")
		if got := created.field("spec"); got != fmt.Sprintf("map[maxReservedIPs:%d subnetAllocationMode:Single]", v1alpha1.DefaultMaxReservedIPs) {
			t.Errorf("%s: the spec is %s", group, got)
		}
	}
}

// TestPodNetwork_ChangeWhileReady_Refused changes each field but the limit of reserved addresses.
func TestPodNetwork_ChangeWhileReady_Refused(t *testing.T) {
	const keeps = "spec must not change while status.status is Ready or InUse"
	for _, group := range groups {
		held := mustCreate(t, fmt.Sprintf(podNetwork, group)+"{networkID: blue, subnetResourceID: net1}}")
		held, err := held.with(t, "green", "spec", "networkID").change(t)
		wantError(t, err, "")
		for _, state := range []string{"Ready", "InUse"} {
			held, err = held.with(t, state, "status", "status").change(t, "status")
			wantError(t, err, "")
			for field, value := range map[string]string{
				"networkID": "blue", "vnetGUID": "blue", "subnetResourceID": "net2", "subnetGUID": "7d",
				"deviceType": "acn.azure.com/vnet-nic", "subnetAllocationMode": "PrefixBlock",
			} {
				_, err := held.with(t, value, "spec", field).change(t)
				wantError(t, err, keeps)
			}
			held, err = held.with(t, int64(len(state)), "spec", "maxReservedIPs").change(t)
			wantError(t, err, "")
		}
		held, err = held.with(t, "SubnetNotDelegated", "status", "status").change(t, "status")
		wantError(t, err, "")
		held, err = held.with(t, "blue", "spec", "networkID").change(t)
		wantError(t, err, "")
		_, err = held.with(t, "Lost", "status", "status").change(t, "status")
		wantError(t, err, "SubnetDelegatedToDifferentService")
	}
}

func TestPodNetworkInstance_SpecChanged_Refused(t *testing.T) {
	for _, group := range groups {
		held := mustCreate(t, fmt.Sprintf(instance, group)+"{podNetworkConfigs: [{podNetwork: a, podIPReservationSize: 1}]}}")
		_, err := held.with(t, "b", "spec", "podnetwork").change(t)
		wantError(t, err, "spec must not change")
		reserved := held.with(t, map[string]any{
			"status": "Ready", "podIPAddresses": []any{"10.0.0.9"}, "podNetworkStatuses": map[string]any{"a": "Ready"},
			"reservations": []any{map[string]any{"podNetwork": "a", "networkID": "blue", "podIPAddresses": []any{"10.0.0.9"}}},
		}, "status")
		kept, err := reserved.change(t, "status")
		wantError(t, err, "")
		if got := kept.field("status"); got != reserved.field("status") {
			t.Errorf("%s: the status is %s, want %s", group, got, reserved.field("status"))
		}
		_, err = kept.with(t, map[string]any{"a": "Lost"}, "status", "podNetworkStatuses").change(t, "status")
		wantError(t, err, "InsufficientIPAddressesOnSubnet")
		_, err = kept.with(t, []any{map[string]any{"podNetwork": "a"}}, "status", "reservations").change(t, "status")
		wantError(t, err, "networkID: Required value")
	}
}

// TestPodConfig_EachGroup_OwnStatusForm has the manifest of the early design.
func TestPodConfig_EachGroup_OwnStatusForm(t *testing.T) {
	early := mustCreate(
		t,
		"{apiVersion: acn.azure.com/v1alpha1, kind: MultiTenantPodNetworkConfig, metadata: {namespace: default, name: web, ownerReferences: [{apiVersion: v1, kind: Pod, name: web, uid: u, controller: true}]}, spec: {podNetwork: a, podNetworkInstance: pni}}",
	)
	provisioned := early.with(t, map[string]any{"uuid": "7d", "primaryIP": "10.0.0.9/32", "macAddress": "00:0d:3a:12:34:56", "status": "provisioned"}, "status")
	kept, err := provisioned.change(t, "status")
	wantError(t, err, "")
	if got := kept.field("status"); got != provisioned.field("status") {
		t.Errorf("the status is %s, want %s", got, provisioned.field("status"))
	}
	_, err = kept.with(t, "Ready", "status", "status").change(t, "status")
	wantError(t, err, "provisioned")
	_, err = kept.with(t, "web", "spec", "podName").change(t)
	wantError(t, err, "unknown field")

	today := mustCreate(
		t,
		"{apiVersion: multitenancy.acn.azure.com/v1alpha1, kind: MultitenantPodNetworkConfig, metadata: {namespace: default, name: web}, spec: {podNetwork: a, podNetworkInstance: pni, podName: web, podUID: u, IBMACAddresses: ['00:0d:3a:12:34:56'], resourceClaims: [nic]}}",
	)
	ready := today.with(t, map[string]any{
		"ncID": "7d", "primaryIP": "10.0.0.9/32", "macAddress": "00:0d:3a:12:34:56", "gatewayIP": "10.0.0.1", "nodeName": "node-a", "status": "Ready", "defaultDenyACL": true,
		"interfaceInfos": []any{map[string]any{
			"ncID": "7d", "primaryIP": "10.0.0.9/32", "macAddress": "00:0d:3a:12:34:56", "gatewayIP": "10.0.0.1", "subnetAddressSpace": "10.0.0.0/24",
			"deviceType": "acn.azure.com/vnet-nic", "accelnetEnabled": true, "ibStatus": "Programmed", "sharedNic": true,
			"networkID": "blue", "subnetGUID": "7d", "subnetResourceID": subnetPath + "net1",
		}},
	}, "status")
	kept, err = ready.change(t, "status")
	wantError(t, err, "")
	if got := kept.field("status"); got != ready.field("status") {
		t.Errorf("the status is %s, want %s", got, ready.field("status"))
	}
	for _, selector := range []string{"status.nodeName=node-a,status.status=Ready", "spec.podName=web,spec.podNetwork=a,spec.podNetworkInstance=pni"} {
		found, err := today.resource.List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		if err != nil || len(found.Items) != 1 {
			t.Errorf("%s selects %v, %v", selector, found, err)
		}
	}
	_, err = kept.with(t, "provisioned", "status", "status").change(t, "status")
	wantError(t, err, "NodeCapacityExceeded")
	_, err = create(
		t,
		"{apiVersion: multitenancy.acn.azure.com/v1alpha1, kind: MultitenantPodNetworkConfig, metadata: {namespace: default, name: other}, spec: {}}",
	)
	wantError(t, err, "spec.podNetwork: Required value")
}

// TestNodeInfo_EachGroup_OwnForm has the machine in the status, in the early design.
func TestNodeInfo_EachGroup_OwnForm(t *testing.T) {
	early := mustCreate(
		t,
		"{apiVersion: acn.azure.com/v1alpha1, kind: NodeInfo, metadata: {name: node-a, ownerReferences: [{apiVersion: v1, kind: Node, name: node-a, uid: u, blockOwnerDeletion: false}]}, status: {vmUniqueID: vm-1}}",
	)
	kept, err := early.with(t, "vm-1", "status", "vmUniqueID").change(t, "status")
	wantError(t, err, "")
	if got := kept.field("status", "vmUniqueID"); got != "vm-1" {
		t.Errorf("the status has %s", got)
	}

	const manifest = "{apiVersion: multitenancy.acn.azure.com/v1alpha1, kind: NodeInfo, metadata: {name: node-a}, spec: "
	_, err = create(t, manifest+"{homeAZ: AZ1}}")
	wantError(t, err, "homeAZ must be AZ and two digits")
	today := mustCreate(t, manifest+"{vmUniqueID: vm-1, homeAZ: AZ01}}")
	offers := today.with(t, []any{map[string]any{"deviceType": "acn.azure.com/vnet-nic", "macAddress": "00:0D:3a:12:34:56"}}, "status", "deviceInfos")
	kept, err = offers.change(t, "status")
	wantError(t, err, "")
	if got := kept.field("status", "deviceInfos"); got != offers.field("status", "deviceInfos") {
		t.Errorf("the devices are %s", got)
	}
	_, err = kept.with(t, []any{map[string]any{"macAddress": "00:0d:3a:12:34"}}, "status", "deviceInfos").change(t, "status")
	wantError(t, err, "macAddress must be an Ethernet address")
	found, err := today.resource.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.vmUniqueID=vm-1"})
	if err != nil || len(found.Items) != 1 {
		t.Errorf("by the machine are found %v, %v", found, err)
	}
}

func TestScheme_NodeIPAMKinds_AllKnown(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, acnv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	configs := map[string]string{v1alpha1.GroupVersion.Group: "MultitenantPodNetworkConfig", acnv1alpha1.GroupVersion.Group: "MultiTenantPodNetworkConfig"}
	for _, group := range groups {
		for _, kind := range []string{"PodNetwork", "PodNetworkInstance", "NodeInfo", configs[group]} {
			for _, name := range []string{kind, kind + "List"} {
				if want := (schema.GroupVersionKind{Group: group, Version: "v1alpha1", Kind: name}); !scheme.Recognizes(want) {
					t.Errorf("it does not know %s", want)
				}
			}
		}
	}
}
