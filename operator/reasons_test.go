// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/api/apiserver"
)

// fine lists the names of the reasons that do not stand for refusals.
var fine = []string{"ReadyReason", "AttachedReason", "NetworkHealthyReason", "ProfileReason", "HostLinkReadyReason", "RolesServingReason"}

// elsewhere are the reasons that no operator gives within a test, and where
// they are shown.
var elsewhere = map[string]string{
	v1alpha1.VNIPendingReason:   "operator/vpc, TestDecide_VPC_OneVNIAndRangesChecked: over within a moment",
	v1alpha1.VNIExhaustedReason: "operator/ipam, vni_test.go: takes 2^24 VPCs",
	// Of a Network, in a condition of its own.
	v1alpha1.PodSecurityMissingReason: "operator/network, TestDecide_NamespaceWithoutPodSecurity_ConditionTells",
	v1alpha1.NameTooLongReason:        "operator/network, TestDecide_NameTooLongForLabel_NotReady: the API server refuses it",
	v1alpha1.TooManyGrantsReason:      "operator/hostaccess, TestGrants_ObjectTooLarge_OthersStored",
	v1alpha1.ObjectLeftOutReason:      "operator/announce, TestAnnounce_ObjectLeftOut_EventByLeader",
	// Of networks outside of VPCs.
	v1alpha1.InvalidReason:              "operator/danm, TestTenantProfile_DANMCases_AsReferenced",
	v1alpha1.SpecRefusedReason:          "TestTenantNetwork_SpecRefusedByRules_SpecLeft",
	v1alpha1.NetworkIDMissingReason:     "operator/danm, TestTenantProfile_DANMCases_AsReferenced",
	v1alpha1.RangeInUseReason:           "operator/danm, TestRange_AddressesHeld_ChangeRefused",
	v1alpha1.TenantConfigNotFoundReason: "operator/danm, TestTenantProfile_DANMCases_AsReferenced",
	v1alpha1.DeviceNotOfferedReason:     "operator/danm, TestTenantProfile_DANMCases_AsReferenced",
	v1alpha1.TypeNotServedReason:        "operator/danm, TestTenantProfile_DANMCases_AsReferenced",
	v1alpha1.RangeNotOfferedReason:      "operator/danm, TestTenantShare_SharedDevice_OwnNumbersAndRanges",
	v1alpha1.TenantLimitReason:          "operator/danm, TestNetworkLimit_Tenant_AllNamespacesCounted",
	v1alpha1.OlderServesReason:          "operator/tenantconfig, TestDecide_SeveralTenantConfigs_OldestServes",
	v1alpha1.NoServingNodeReason:        "operator/danm, TestNetworkReady_EachKind_OnlyIfPodsServable",
	v1alpha1.PluginFileMissingReason:    "operator/danm, TestNetworkReady_EachKind_OnlyIfPodsServable",
	v1alpha1.NoAddressRangeReason:       "operator/ipam, TestChooseInNetwork_DANMReservationCases_AsReferenced",
	v1alpha1.IPOutsideNetworkReason:     "operator/ipam, TestChooseInNetwork_DANMReservationCases_AsReferenced",
	v1alpha1.NetworkExhaustedReason:     "operator/ipam, TestChooseInNetwork_DANMReservationCases_AsReferenced",
	v1alpha1.NotEnforcedReason:          "operator/danm, TestIsolationCondition_VirtualFunctionSettings_WeakOnesShown",
	v1alpha1.DelegationNotGrantedReason: "operator/interfaces, TestPlugins_NotGranted_Refused",
	v1alpha1.DevicesNotRequestedReason:  "operator/interfaces, TestInterfaceList_OneRefused_NoneGiven",
	v1alpha1.InterfacesInvalidReason:    "operator/interfaces, TestInterfaceList_OneRefused_NoneGiven",
	v1alpha1.RouteConflictReason:        "operator/interfaces, TestInterfaceList_OneRefused_NoneGiven",
	v1alpha1.ProbesOutsideVPCReason:     "operator/interfaces, TestInterfaceList_OneRefused_NoneGiven",
	v1alpha1.HostPortOutsideVPCReason:   "operator/interfaces, TestInterfaceList_OneRefused_NoneGiven",
	// Of the node IPAM API.
	v1alpha1.PodNetworkInstanceNotFoundReason: "operator/nodeipam, TestSource_PodsOnAPINodes_InterfacesOrRefusal",
	v1alpha1.PodNetworkInstanceNotReadyReason: "operator/nodeipam, TestSource_PodsOnAPINodes_InterfacesOrRefusal",
	v1alpha1.PodNetworkNotReadyReason:         "operator/nodeipam, TestSource_PodsOnAPINodes_InterfacesOrRefusal",
	v1alpha1.NodeNotMultitenantReason:         "operator/nodeipam, TestSource_PodsOnAPINodes_InterfacesOrRefusal",
	v1alpha1.ForeignDefinitionReason:          "operator, TestInstance_ForeignCRD_ServedWithoutReservations",
	v1alpha1.NodeCapacityReason:               "operator/ipam, TestDevice_TwoAttachmentsOnNode_Distinct",
	v1alpha1.ReservingReason:                  "operator/nodeipam/podnetworkinstance, TestInstance_Reserving_ReadyOnlyAfterStatusWritten: over within a moment",
	v1alpha1.ReservationLimitReason:           "operator/nodeipam/podnetworkinstance, TestDecide_Unreservable_ReasonGiven",
	// Of a pod whose status somebody else wrote.
	v1alpha1.AllocationReplacedReason: "TestAllocationStatus_Forged_GivesNothing",
	// Of a pod whose annotations have no room.
	v1alpha1.AnnotationsTooLargeReason: "TestPod_AnnotationsFull_RefusedWithReason",
	// Of a Namespace whose objects cause too many events.
	v1alpha1.EventsWithheldReason: "operator/announce, TestEvents_NamespaceFloods_Cut",
	// Of a Node in whose name something was written.
	v1alpha1.AddressNotOfNodeReason:   "TestForgedAddress_PodOfOtherNode_NoEffect",
	v1alpha1.TooManyVNIsReason:        "TestNode_KeepsTooManyVNIs_Event",
	v1alpha1.RollCallUnansweredReason: "TestNode_ReadyButSilent_Event",
	v1alpha1.NodeAddressDoubtedReason: "TestDefaultVPC_KubeletReportsItsAddresses_StaysReady",
	// Of VPCs and Subnets with roles, in a condition of their own.
	v1alpha1.RolesServingReason:       "operator/role, TestMembers_NodesLackRoles_NotMadeYet",
	v1alpha1.RolesJoiningReason:       "operator/role, TestRoleSummary_Joining_ReasonAndCount",
	v1alpha1.TooFewRoleNodesReason:    "operator/role, TestMembers_TooFewNodes_ReasonGiven",
	v1alpha1.ScaledEndpointsOffReason: "operator/role, TestMembers_WithoutVerdicts_NotPlaced",
	v1alpha1.NodesLackRolesReason:     "operator/role, TestMembers_NodesLackRoles_NotMadeYet",
	// Of a Service, which has no condition.
	v1alpha1.EndpointsLeftOutReason:        "TestService_ServedNowhere_Event",
	v1alpha1.ServicesExhaustedReason:       "operator/service, TestServicesExhausted_NoRoom_Warned: takes 16,384 ports",
	v1alpha1.LoadBalancerInvalidReason:     "TestLoadBalancer_NoAddress_ReasonThenHealed",
	v1alpha1.ExternalPoolNotFoundReason:    "TestLoadBalancer_Pools_OnlyAllowedTenantServed",
	v1alpha1.ExternalPoolExhaustedReason:   "TestLoadBalancer_Pools_OnlyAllowedTenantServed",
	v1alpha1.ExternalIPsNotGrantedReason:   "TestExternalIPs_NotGranted_Event",
	v1alpha1.EndpointsInvalidReason:        "TestServiceOverNetwork_CannotBeServed_ReasonGiven",
	v1alpha1.SelectorInSpecReason:          "TestServiceOverNetwork_CannotBeServed_ReasonGiven",
	v1alpha1.ClusterIPNotServedReason:      "operator/netservice, TestClusterIP_VPCAndNetworks_ServedOnlyThere",
	v1alpha1.InterfaceWithoutAddressReason: "operator/netservice, TestEndpoints_Pods_AddressesHeldInNetworks",
	v1alpha1.EndpointsNotOwnedReason:       "TestEndpoints_OtherProgram_LeftAlone",
	v1alpha1.NotServedByAllNodesReason:     "operator/service, TestPartlyServed_SomeNodesRefuse_ReasonGiven",
	v1alpha1.IPOutsidePoolReason:           "TestLoadBalancer_Pools_OnlyAllowedTenantServed",
	v1alpha1.ExternalPoolNotReadyReason:    "operator/ipam, TestChooseExternal_Pools_AddressOrReason: what makes a pool unusable is told by the pool",
}

// declared reads the constants of package v1alpha1 that are reasons: values by
// name.
func declared(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	names, err := filepath.Glob("../api/v1alpha1/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		maps.Copy(all, declaredIn(t, name))
	}
	if len(all) < 100 {
		t.Fatalf("only %d reasons are declared: %v", len(all), all)
	}
	return all
}

func declaredIn(t *testing.T, name string) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasSuffix(spec.Names[0].Name, "Reason") {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			t.Fatalf("%s is no literal", spec.Names[0].Name)
		}
		value, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		all[spec.Names[0].Name] = value
		return true
	})
	return all
}

// source returns all code below a folder but for tests.
func source(t *testing.T, folder string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func TestReasons_EachOne_DocumentedAndGiven(t *testing.T) {
	text, err := os.ReadFile("../docs/reference/reasons.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{} // in tables
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-Z][^|]*) \|`).FindAllStringSubmatch(string(text), -1) {
		for _, name := range regexp.MustCompile(`[A-Z]\w+`).FindAllString(row[1], -1) {
			documented[name] = true
		}
	}
	given := maps.Clone(elsewhere)
	for _, scene := range scenes() {
		given[scene.reason] = ""
	}
	daemon := source(t, "../cnid")
	for name, reason := range declared(t) {
		delete(documented, reason)
		if slices.Contains(fine, name) {
			continue
		}
		if !regexp.MustCompile(`\b` + reason + `\b`).Match(text) {
			t.Errorf("docs/reference/reasons.md says nothing of %s", reason)
		}
		if _, ok := given[reason]; !ok && !strings.Contains(daemon, "v1alpha1."+name) {
			t.Errorf("%s is given neither in a scene of this test nor by the daemon", reason)
		}
	}
	for reason := range documented {
		t.Errorf("docs/reference/reasons.md tells of %s, which nobody gives", reason)
	}
}

// A reader looks for one row. Only a table with the kinds of objects in its second
// column may have a reason in several rows.
func TestReasonTables_EachReason_ExplainedOnce(t *testing.T) {
	text, err := os.ReadFile("../docs/reference/reasons.md")
	if err != nil {
		t.Fatal(err)
	}
	tables := regexp.MustCompile(`(?m)^\| reason[^|]*\| what it means \|.*\n(?:\|.*\n)*`).FindAllString(string(text), -1)
	if len(tables) < 5 {
		t.Fatalf("docs/reference/reasons.md has %d tables of reasons with what they mean: want 5 or more", len(tables))
	}
	for _, table := range tables {
		seen := map[string]bool{}
		for _, row := range regexp.MustCompile(`(?m)^\| ([A-Z_a-z][^|]*) \|`).FindAllStringSubmatch(table, -1) {
			for _, reason := range regexp.MustCompile(`\w+`).FindAllString(row[1], -1) {
				if reason != "event" && seen[reason] {
					t.Errorf("docs/reference/reasons.md explains %s in two rows of one table: join them", reason)
				}
				seen[reason] = true
			}
		}
	}
}

// scene makes an object that is refused for a reason.
type scene struct {
	reason string
	of     string
	make   func(r *rig) client.Object
}

// heldBy returns an Address in a subnet, whose pod is gone from a living node.
func heldBy(vpc, subnet, ip string) *v1alpha1.Address {
	return &v1alpha1.Address{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AddressName(vpc, netip.MustParseAddr(ip))},
		Spec: v1alpha1.AddressSpec{
			VPC: vpc, Subnet: subnet, IP: ip, MAC: "02:00:0a:00:00:04", Node: "node-1", Attachment: "eth0",
			Holder: v1alpha1.AddressHolder{Kind: v1alpha1.HolderPod, Namespace: vpc, Name: "gone", UID: "gone-" + ip},
			Set:    []string{ip},
		},
	}
}

func made[O client.Object](build func() O) func(r *rig) client.Object {
	return func(r *rig) client.Object {
		object := build()
		r.create(object)
		return object
	}
}

func aPod(name, network, nic string) func(r *rig) client.Object {
	return func(r *rig) client.Object { return r.schedule(newPod("reasons", name, network, nic), "node-1") }
}

func aSubnet(name, vpc, short, cidr string) func(r *rig) client.Object {
	return made(func() *v1alpha1.Subnet { return newSubnet("reasons-"+name, vpc, short, cidr) })
}

func aNetwork(name, vpc string) func(r *rig) client.Object {
	return made(func() *arktosv1.Network { return newNetwork("reasons", name, vpc) })
}

// scenes happen one after the other; later ones use objects of earlier ones.
func scenes() []scene {
	return slices.Concat(vpcScenes(), subnetScenes(), networkScenes(), sharedServiceScenes(), podScenes())
}

func vpcScenes() []scene {
	return []scene{
		{v1alpha1.VNITakenReason, "VPC", func(r *rig) client.Object {
			first := newVPC("reasons", nil)
			r.get(first)
			second := newVPC("reasons-taken", nil, "10.10.0.0/16")
			second.Spec.VNI = &first.Status.VNI
			r.create(second)
			return second
		}},
		{v1alpha1.RangeReservedReason, "VPC", made(func() *v1alpha1.VPC {
			return newVPC("reasons-reserved", nil, apiserver.ServiceCIDR4)
		})},
		{v1alpha1.DeletingReason, "VPC", func(r *rig) client.Object {
			vpc := newVPC("reasons-deleting", nil, "10.10.0.0/16")
			r.create(vpc, newSubnet("reasons-holds", vpc.Name, "", "10.10.1.0/24"))
			sees(r, vpc, vpcReady(v1alpha1.ReadyReason))
			r.delete(vpc)
			return vpc
		}},
	}
}

func subnetScenes() []scene {
	return []scene{
		{v1alpha1.VPCNotFoundReason, "Subnet", aSubnet("lost", "reasons-nowhere", "", "10.10.1.0/24")},
		{v1alpha1.VPCNotReadyReason, "Subnet", aSubnet("unready", "reasons-taken", "", "10.10.1.0/24")},
		{v1alpha1.OutsideVPCReason, "Subnet", aSubnet("outside", "reasons", "", "10.99.0.0/24")},
		{v1alpha1.OverlapReason, "Subnet", aSubnet("overlap", "reasons", "", "10.10.1.128/25")},
		{v1alpha1.NameConflictReason, "Subnet", aSubnet("namesake", "reasons", "net1", "10.10.9.0/24")},
		{v1alpha1.CutsOffReason, "Subnet", func(r *rig) client.Object {
			r.create(newVPC("reasons-cut", nil, "10.10.0.0/16"), heldBy("reasons-cut", "reasons-cut", "10.10.2.4"))
			object := newSubnet("reasons-cut", "reasons-cut", "", "10.10.1.0/24")
			r.create(object)
			return object
		}},
		{v1alpha1.DeletingReason, "Subnet", func(r *rig) client.Object {
			object := newSubnet("reasons-leaving", "reasons", "", "10.10.8.0/24")
			r.create(object, heldBy("reasons", object.Name, "10.10.8.4"))
			sees(r, object, subnetReady(v1alpha1.ReadyReason))
			r.delete(object)
			return object
		}},
	}
}

func networkScenes() []scene {
	return []scene{
		{v1alpha1.VPCNotFoundReason, "Network", aNetwork("lost", "reasons-nowhere")},
		{v1alpha1.VPCNotReadyReason, "Network", func(r *rig) client.Object {
			object := newNetwork("reasons", "unready", "reasons-unready")
			r.create(newVPC("reasons-unready", []string{"reasons"}, apiserver.ServiceCIDR4), object)
			return object
		}},
		{v1alpha1.TenantNotAllowedReason, "Network", aNetwork("foreign", "reasons-cut")},
		{v1alpha1.NoReadySubnetReason, "Network", func(r *rig) client.Object {
			object := newNetwork("reasons", "empty", "reasons-empty")
			r.create(newVPC("reasons-empty", []string{"reasons"}, "10.10.0.0/16"), object)
			return object
		}},
		{v1alpha1.DeletingReason, "Network", func(r *rig) client.Object {
			object := newNetwork("reasons", "leaving", "reasons")
			service := &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: "reasons", Name: "user", Labels: map[string]string{arktosv1.NetworkLabel: object.Name}},
				Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
			}
			r.create(object, service)
			sees(r, object, networkReady(v1alpha1.ReadyReason))
			r.delete(object)
			return object
		}},
	}
}

// sharing makes a SharedService of a Service, and the Service unless it is nil.
func sharing(name string, service *corev1.ServiceSpec, labels map[string]string) func(r *rig) client.Object {
	return func(r *rig) client.Object {
		if service != nil {
			r.create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "reasons", Name: name, Labels: labels}, Spec: *service})
		}
		object := &v1alpha1.SharedService{
			ObjectMeta: metav1.ObjectMeta{Name: "reasons-" + name}, Spec: v1alpha1.SharedServiceSpec{Namespace: "reasons", Name: name},
		}
		r.create(object)
		return object
	}
}

func sharedServiceScenes() []scene {
	web := &corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}
	return []scene{
		{v1alpha1.ServiceNotFoundReason, "SharedService", sharing("missing", nil, nil)},
		{v1alpha1.ServiceOfNetworkReason, "SharedService", sharing("tenants", web, map[string]string{arktosv1.NetworkLabel: "n"})},
		{v1alpha1.ServiceNotServedReason, "SharedService", sharing("headless", &corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}, nil)},
	}
}

func podScenes() []scene {
	return []scene{
		{v1alpha1.NICInvalidReason, "Pod", aPod("invalid", "n", `{name: eth0}`)},
		{v1alpha1.NetworkNotFoundReason, "Pod", aPod("lost", "nowhere", "")},
		{v1alpha1.NetworkNotReadyReason, "Pod", aPod("unready", "unready", "")},
		{v1alpha1.NetworkTypeReason, "Pod", func(r *rig) client.Object {
			object := newNetwork("reasons", "other", "reasons")
			object.Spec.Type = "flat"
			r.create(object)
			return aPod("other", "other", "")(r)
		}},
		{v1alpha1.NoDefaultNetworkReason, "Pod", aPod("nameless", "", "")},
		{v1alpha1.SubnetNotFoundReason, "Pod", aPod("homeless", "n", `{"subnet": "net9"}`)},
		{v1alpha1.SubnetNotReadyReason, "Pod", aPod("subnet", "n", `{"subnet": "reasons-overlap"}`)},
		{v1alpha1.SubnetUseReason, "Pod", func(r *rig) client.Object {
			subnet := newSubnet("reasons-lb", "reasons", "lb", "10.10.7.0/24")
			subnet.Spec.Use = v1alpha1.SubnetForServices
			r.create(subnet)
			return aPod("misplaced", "n", `{"subnet": "lb"}`)(r)
		}},
		{v1alpha1.IPOutsideVPCReason, "Pod", aPod("outside", "n", `{"ip": "10.77.0.9"}`)},
		{v1alpha1.IPOutsideSubnetReason, "Pod", aPod("beside", "n", `{"ip": "10.10.1.50", "subnet": "net2"}`)},
		{v1alpha1.IPReservedReason, "Pod", aPod("reserved", "n", `{"ip": "10.10.1.1"}`)},
		{v1alpha1.IPInUseReason, "Pod", func(r *rig) client.Object {
			nic := `{"ip": "10.10.1.40"}`
			first := r.schedule(newPod("reasons", "first", "n", nic), "node-1")
			sees(r, first, hasReason(v1alpha1.AttachedReason))
			return aPod("second", "n", nic)(r)
		}},
		{v1alpha1.IPReleasingReason, "Pod", func(r *rig) client.Object {
			r.create(heldBy("reasons", "reasons-net1", "10.10.1.60"))
			return aPod("patient", "n", `{"ip": "10.10.1.60"}`)(r)
		}},
		{v1alpha1.SubnetExhaustedReason, "Pod", func(r *rig) client.Object {
			for i := 2; i <= 6; i++ { // all that a /29 has to give
				r.create(heldBy("reasons", "reasons-net2", fmt.Sprintf("10.10.2.%d", i)))
			}
			return aPod("late", "n", `{"subnet": "net2"}`)(r)
		}},
	}
}

// says makes a check of an object's condition: Ready, or for pods the condition that pods have.
func says(object client.Object, reason string) error {
	switch object := object.(type) {
	case *v1alpha1.VPC:
		return ready(object.Status.Conditions, reason)
	case *v1alpha1.Subnet:
		return ready(object.Status.Conditions, reason)
	case *arktosv1.Network:
		return ready(object.Status.Conditions, reason)
	case *v1alpha1.SharedService:
		return ready(object.Status.Conditions, reason)
	case *corev1.Pod:
		return hasReason(reason)(object)
	}
	return fmt.Errorf("unexpected %T", object)
}

// announced waits for an event of an object with a reason.
func (r *rig) announced(object client.Object, reason string) {
	r.t.Helper()
	r.eventually(func() error {
		var list corev1.EventList
		if err := r.List(r.t.Context(), &list); err != nil {
			return err
		}
		for _, event := range list.Items {
			if event.InvolvedObject.UID == object.GetUID() && event.Reason == reason && event.Message != "" {
				return nil
			}
		}
		return fmt.Errorf("no event %s about %T %s", reason, object, object.GetName())
	})
}

func TestRefusals_EachScene_ConditionAndEvent(t *testing.T) {
	r := start(t)
	r.network("reasons")
	for _, scene := range scenes() {
		t.Run(scene.of+"/"+scene.reason, func(t *testing.T) {
			r := r.within(t)
			object := scene.make(r)
			sees(r, object, func(object client.Object) error { return says(object, scene.reason) })
			r.announced(object, scene.reason)
		})
	}
}

func TestNetworks_SameName_OneReportsConflict(t *testing.T) {
	r := start(t)
	r.network("namesake")
	r.create(newNamespace("namesake-2", "namesake"), newNetwork("namesake-2", "n", "namesake"))
	var conflicts []*arktosv1.Network
	r.eventually(func() error {
		conflicts = nil
		for _, namespace := range []string{"namesake", "namesake-2"} {
			n := newNetwork(namespace, "n", "")
			r.get(n)
			if c := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.NameConflictCondition); c != nil && c.Reason == v1alpha1.NameConflictReason {
				conflicts = append(conflicts, n)
			}
		}
		if len(conflicts) != 1 {
			return fmt.Errorf("%d conflicts are reported, want one", len(conflicts))
		}
		return nil
	})
	r.announced(conflicts[0], v1alpha1.NameConflictReason)
}
