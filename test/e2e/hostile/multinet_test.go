// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	danmiov1 "github.com/alioth-net/alioth/api/danmio/v1"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/test/api/refusal"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

const (
	// nodeDevice is the device of a node with the node's own address.
	nodeDevice = "eth0"
	// offeredDevice is a device that a TenantConfig offers. No pod gets an interface on it, so no
	// node needs it.
	offeredDevice = "hostile0"
	// sharedDevice is a device that a TenantConfig offers without VLANs.
	sharedDevice = "hostile1"
)

// forger is a tenant's user with the role edit, with the objects of a victim that the user wants.
type forger struct {
	*env
	*scene.Tenant
	editor *scene.Scene
	victim *scene.Tenant
	// secret is a network of the victim on the nodes' own device.
	secret *danmv1.DanmNet
	// node is the node of all pods.
	node string
}

// forger makes both tenants and the network.
func (e *env) forger(t *testing.T) *forger {
	t.Helper()
	_, second := e.Nodes()
	f := &forger{env: e, node: second, victim: e.Tenant(t, stage.Overlapping("victim")), Tenant: e.Tenant(t, stage.Overlapping("forger"))}
	f.editor = e.PersonWith(t, f.Namespace.Name, "edit")
	f.secret = &danmv1.DanmNet{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.victim.Namespace.Name, Name: "secret"},
		Spec: danmv1.NetworkSpec{NetworkID: "secret", NetworkType: "macvlan", Options: danmv1.NetworkOptions{
			HostDevice: nodeDevice, CIDR: "10.104.1.0/24",
		}},
	}
	e.Make(t, f.secret)
	return f
}

// forgeries are texts of the operator's annotation by their names: an interface on the
// nodes' own device in the victim's network, and one in the victim's VPC.
func (f *forger) forgeries(t *testing.T) map[string]string {
	t.Helper()
	addresses := []netip.Prefix{netip.MustParsePrefix("10.104.1.66/24")}
	outside := netif.Interface{
		Name: "eth0", Kind: "macvlan", Outside: "DanmNet/" + f.secret.Namespace + "/" + f.secret.Name, OutsideUID: string(f.secret.UID),
		Addresses: addresses, MAC: "0a:00:00:00:00:66", Link: &netif.Config{Parent: nodeDevice, Mode: "bridge"},
	}
	layer2 := outside
	layer2.Addresses, layer2.Link = nil, &netif.Config{Parent: nodeDevice, Mode: "passthru", IPv6: netif.IPv6None}
	inside := netif.Interface{
		Name: "eth0", Kind: netif.KindPair, VPC: f.victim.VPC.Name, Subnet: f.victim.Subnets[0].Name, MAC: "0a:00:00:00:00:67",
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.10.1.66/24")}, Gateways: []netip.Addr{netip.MustParseAddr("10.10.1.1")},
	}
	// As root on the node, if the daemon ran it.
	plugin := netif.Interface{
		Name: "eth0", Kind: netif.KindDelegate, Outside: "NetworkAttachmentDefinition/" + f.Namespace.Name + "/own", OutsideUID: string(f.secret.UID),
		Delegate: &netif.Delegate{Conf: json.RawMessage(`{"cniVersion":"1.0.0","name":"own","plugins":[{"type":"bridge","bridge":"forged0","ipam":{}}]}`)},
	}
	texts := map[string]string{}
	for name, one := range map[string]netif.Interface{"outside": outside, "layer2": layer2, "inside": inside, "plugin": plugin} {
		text, err := annotations.FormatAttachments([]netif.Interface{one})
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = text
	}
	return texts
}

// forged has a pod claim that the operator has decided already. It names its node itself,
// so that the node learns of the pod as soon as the operator does.
func (f *forger) forged(text string) scene.PodOption {
	return func(pod *corev1.Pod) {
		pod.Spec.NodeName = f.node
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.AttachmentsAnnotation, text)
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, arktosv1.ReadinessAnnotation, "true")
	}
}

// claim returns an AttachmentClaim that confirms a forged text for a pod.
func (f *forger) claim(t *testing.T, pod *corev1.Pod, text string) *v1alpha1.AttachmentClaim {
	t.Helper()
	list, err := annotations.ParseAttachmentsHashed(text)
	if err != nil {
		t.Fatal(err)
	}
	config, err := netif.Encode(&list[0].Interface)
	if err != nil {
		t.Fatal(err)
	}
	return &v1alpha1.AttachmentClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: v1alpha1.AttachmentClaimName(string(pod.UID), "eth0")},
		Spec: v1alpha1.AttachmentClaimSpec{
			Pod: v1alpha1.AttachmentPod{
				Name: pod.Name,
				UID:  string(pod.UID),
			}, Node: f.node, Interface: "eth0", Driver: "macvlan", Config: config, ConfigHash: list[0].Hash,
			Network: v1alpha1.NetworkReference{
				Group: danmv1.GroupVersion.Group, Kind: "DanmNet", Namespace: f.secret.Namespace, Name: f.secret.Name, UID: string(f.secret.UID),
			},
		},
	}
}

// create has the tenant's user create a pod.
func (f *forger) create(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if err := f.editor.Create(stage.Within(t, stage.Patience), pod); err != nil {
		t.Fatal(err)
	}
}

// awaitRefusal waits until the operator refuses a pod, and until none of the user's text is left in
// the operator's place. It requires that the pod has no address.
func (f *forger) awaitRefusal(t *testing.T, pod *corev1.Pod, reason, text string) {
	t.Helper()
	ctx := stage.Within(t, stage.Patience)
	err := scene.Until(ctx, "pod "+pod.Name+" to be refused", func(ctx context.Context) (bool, string, error) {
		err := f.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		condition := scene.NetworkCondition(pod)
		refused := condition != nil && condition.Status == corev1.ConditionFalse && condition.Reason == reason && strings.Contains(condition.Message, text)
		pretends := pod.Annotations[v1alpha1.AttachmentsAnnotation] != "" || pod.Annotations[arktosv1.ReadinessAnnotation] != ""
		return err == nil && refused && !pretends, fmt.Sprintf("%+v, annotations %v", condition, pod.Annotations), err
	})
	if err != nil {
		t.Error(err)
		return
	}
	held, err := f.Held(ctx, pod.UID)
	if err != nil || len(held) > 0 || len(scene.IPs(pod)) > 0 || pod.Status.Phase != corev1.PodPending {
		t.Errorf("a refused pod holds %v: %v\n%s", held, err, f.Describe(ctx, pod))
	}
	if pod.Spec.NodeName == "" {
		return
	}
	if records := f.recordsOf(t, pod); len(records) > 0 {
		t.Errorf("node %s attached pod %s: %+v", pod.Spec.NodeName, pod.Name, records)
	}
}

// inItsVPCOnly requires that a pod has one interface, in the VPC of its tenant.
func (f *forger) inItsVPCOnly(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	f.noDeviceOfNode(t, pod)
	records := f.recordsOf(t, pod)
	if len(records) != 1 || f.isForeign(records[0]) {
		t.Errorf("node %s has attached pod %s by %+v", pod.Spec.NodeName, pod.Name, records)
	}
	list, err := annotations.ParseAttachments(pod.Annotations[v1alpha1.AttachmentsAnnotation])
	if err != nil || len(list) != 1 || list[0].VPC != f.VPC.Name || list[0].Outside != "" {
		t.Errorf("the attachments of pod %s are %+v: %v", pod.Name, list, err)
	}
	held, err := f.Held(stage.Within(t, stage.Patience), pod.UID)
	if err != nil || len(held) != 2 || slices.ContainsFunc(scene.IPs(pod), func(ip netip.Addr) bool { return !slices.Contains(held, ip) }) {
		t.Errorf("pod %s holds %v and has %v: %v", pod.Name, held, scene.IPs(pod), err)
	}
}

// noDeviceOfNode fails the test if a pod has an interface on a device of its node.
func (f *forger) noDeviceOfNode(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	for _, kind := range []string{"macvlan", "macvtap", "ipvlan", "vlan"} {
		if out := f.InNetNS(t, pod, "ip", "-o", "link", "show", "type", kind); out != "" {
			t.Errorf("pod %s has an interface on a device of its node: %s", pod.Name, out)
		}
	}
}

// isForeign reports whether an attachment leads anywhere but to the VPC of the forger.
func (f *forger) isForeign(rec nodestatus.Attachment) bool {
	return rec.VPC != f.VPC.Name || rec.Outside != "" || rec.Parent != ""
}

// TestAttachment_ForgedAnnotation_NotCarriedOut has a tenant's user write the operator's
// annotations, on pods that the operator accepts and on pods that it refuses.
func TestAttachment_ForgedAnnotation_NotCarriedOut(t *testing.T) {
	t.Parallel()
	e := start(t)
	f := e.forger(t)
	requests := map[string]struct{ list, reason, text string }{
		"danmnet": {`[{"network":"secret","ip":"dynamic"}]`, v1alpha1.NetworkNotFoundReason, "DanmNet " + f.Namespace.Name + "/secret does not exist"},
		"vpc":     {`[{"vpc":"` + f.victim.VPC.Name + `"}]`, v1alpha1.NetworkNotReadyReason, fmt.Sprintf("does not allow tenant %q", f.Name)},
	}
	forgeries := f.forgeries(t)
	var accepted []*corev1.Pod
	refused := map[*corev1.Pod]string{}
	for name, text := range forgeries {
		pod := f.Pod("accepted-"+name, f.forged(text))
		accepted = append(accepted, pod)
		f.create(t, pod)
		for request, r := range requests {
			pod := f.Pod("refused-"+name+"-"+request, f.forged(text), scene.WithInterfaces(r.list))
			refused[pod] = request
			f.create(t, pod)
		}
	}
	claim := f.claim(t, accepted[0], forgeries["outside"])
	wantDenied(t, "a user's AttachmentClaim", f.editor.Client.Create(stage.Within(t, stage.Patience), claim.DeepCopy()), "cannot create resource")
	wantDenied(
		t,
		"an administrator's AttachmentClaim",
		f.Client.Create(stage.Within(t, stage.Patience), claim),
		"only the Alioth operator creates attachmentclaims",
	)
	for pod, request := range refused {
		f.awaitRefusal(t, pod, requests[request].reason, requests[request].text)
	}
	if err := f.WaitReady(stage.Within(t, stage.Patience), accepted...); err != nil {
		t.Fatal(err)
	}
	for _, pod := range accepted {
		f.inItsVPCOnly(t, pod)
	}
	f.changesNothing(t, accepted[0], forgeries["outside"])
}

// changesNothing has the user write the operator's annotations, and other interfaces, on a
// pod that runs.
func (f *forger) changesNothing(t *testing.T, pod *corev1.Pod, text string) {
	t.Helper()
	const fixed = " can't change once the pod has a node"
	for _, tt := range []struct{ key, value, why string }{
		{annotations.InterfacesKey, `[{"network":"secret"}]`, annotations.InterfacesKey + fixed},
		{annotations.InterfacesKeyIO, `[{"network":"secret"}]`, annotations.InterfacesKeyIO + fixed},
		{v1alpha1.AttachmentsAnnotation, text, "only the Alioth operator changes the annotations"},
	} {
		changed := pod.DeepCopy()
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, tt.key, tt.value)
		err := f.editor.Client.Patch(stage.Within(t, stage.Patience), changed, client.MergeFrom(pod))
		wantDenied(t, "annotation "+tt.key+" of a pod that runs", err, tt.why)
	}
	f.inItsVPCOnly(t, pod)
}

// TestService_ForgedNetworkLabel_Refused has a user write the label that puts slices in a network
// on a Service. Kubernetes copies the label from there. The cluster's administrator, who may write
// slices, writes it on one.
func TestService_ForgedNetworkLabel_Refused(t *testing.T) {
	t.Parallel()
	e := start(t)
	f := e.forger(t)
	const why = "the label alioth.dev/domain must not name a network outside of VPCs"
	meta := metav1.ObjectMeta{Namespace: f.Namespace.Name, Name: "intruder"}
	service := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	if err := f.editor.Create(stage.Within(t, stage.Patience), service); err != nil {
		t.Fatal(err)
	}
	label := map[string]string{v1alpha1.DomainLabel: string(f.secret.UID) + ".net", discoveryv1.LabelServiceName: service.Name}
	labelled := service.DeepCopy()
	labelled.Labels = label
	wantDenied(t, "the label of a Service", f.editor.Client.Patch(stage.Within(t, stage.Patience), labelled, client.MergeFrom(service)), why)
	meta.Labels = label
	wantDenied(t, "a slice", f.Client.Create(stage.Within(t, stage.Patience), &discoveryv1.EndpointSlice{
		ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{},
	}), why)
}

// tenantNetwork returns a network of the forger.
func (f *forger) tenantNetwork(name string, edit func(*danmv1.NetworkSpec)) *danmv1.TenantNetwork {
	network := &danmv1.TenantNetwork{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace.Name, Name: name},
		Spec:       danmv1.NetworkSpec{NetworkID: "mine", NetworkType: "macvlan", Options: danmv1.NetworkOptions{CIDR: "10.105.1.0/24"}},
	}
	if edit != nil {
		edit(&network.Spec)
	}
	return network
}

// ownNetwork has the user create a TenantNetwork, and returns it once the operator has
// given it a VLAN of the TenantConfig.
func (f *forger) ownNetwork(t *testing.T) *danmv1.TenantNetwork {
	t.Helper()
	network := f.tenantNetwork("mine", func(s *danmv1.NetworkSpec) { s.Options.HostDevice = offeredDevice })
	err := scene.Until(stage.Within(t, stage.Patience), "the TenantConfig to serve", func(ctx context.Context) (bool, string, error) {
		err := f.editor.Client.Create(ctx, network)
		if refusal.MayPass(err) {
			return false, err.Error(), nil
		}
		return err == nil, "", err
	})
	if err != nil {
		t.Fatal(err)
	}
	f.RemoveAfter(t, network)
	err = scene.Until(stage.Within(t, stage.Patience), "the TenantNetwork to have its VLAN", func(ctx context.Context) (bool, string, error) {
		err := f.Client.Get(ctx, client.ObjectKeyFromObject(network), network)
		return err == nil && network.Status.Profile != nil && network.Status.Profile.VLAN != 0 &&
				slices.Contains(network.Finalizers, v1alpha1.Finalizer), fmt.Sprintf(
				"%+v",
				network,
			), err
	})
	if err != nil {
		t.Fatal(err)
	}
	return network
}

// TestTenantNetworks_NodeDevices_NotGiven has a tenant's user write networks, their status and the
// objects of administrators.
func TestTenantNetworks_NodeDevices_NotGiven(t *testing.T) {
	t.Parallel()
	e := start(t)
	f := e.forger(t)
	e.Make(t, &danmv1.TenantConfig{
		ObjectMeta: metav1.ObjectMeta{Name: stage.Unique("hostile")},
		HostDevices: []danmv1.HostDevice{
			{Name: offeredDevice, VNIType: danmv1.VNITypeVLAN, VNIRange: "3000-3019"}, // more than the limit of one tenant
			{Name: sharedDevice}, {Name: "hostile2", Tenants: []string{f.victim.Name}},
		},
	})
	network := f.ownNetwork(t)
	t.Run("new objects", f.createsNoOther)
	t.Run("DanmNets without a grant", f.createsNoDanmNet)
	t.Run("its own network", func(t *testing.T) { f.editsNothing(t, network) })
	t.Run("the network of another tenant", func(t *testing.T) {
		admin := e.PersonWith(t, f.victim.Namespace.Name, "edit")
		pod := f.victim.Pod("thief", scene.WithInterfaces(`[{"tenantNetwork":"mine","ip":"dynamic"}]`))
		if err := admin.Create(stage.Within(t, stage.Patience), pod); err != nil {
			t.Fatal(err)
		}
		f.awaitRefusal(t, pod, v1alpha1.NetworkNotFoundReason, "TenantNetwork "+pod.Namespace+"/mine does not exist")
	})
	t.Run("a giant range, and the share of another tenant", f.takesNoShare)
	t.Run("the range and the number of an administrator", func(t *testing.T) { f.yieldsToAdministrators(t, network) })
	t.Run("all numbers", f.takesNotAllNumbers)
}

// createsNoOther has the user create networks on devices that are not offered, with names that are
// paths, and objects of administrators.
func (f *forger) createsNoOther(t *testing.T) {
	foreign := f.tenantNetwork("foreign", func(s *danmv1.NetworkSpec) { s.Options.HostDevice = nodeDevice })
	foreignIO := danmiov1.TenantNetwork(*foreign)
	shared := &danmv1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: stage.Unique("hostile")}, Spec: f.secret.Spec}
	mine := v1alpha1.HostVNIClaimNetwork{Group: danmv1.GroupVersion.Group, Kind: "TenantNetwork", Namespace: f.Namespace.Name, Name: "mine", UID: "77"}
	const noRight, notOffered = "cannot create resource", `"` + nodeDevice + `" is not offered to TenantNetworks`
	for _, tt := range []struct {
		name   string
		object client.Object
		why    string
	}{
		{"a device that is not offered", foreign, notOffered},
		{"a device that is not offered, danm.io", &foreignIO, notOffered},
		{"a type that is not offered", f.tenantNetwork("type", func(s *danmv1.NetworkSpec) { s.NetworkType = "bridge" }), `"bridge" is not offered`},
		{"a VLAN", f.tenantNetwork("vlan", func(s *danmv1.NetworkSpec) { s.Options.VLAN = 300 }), "spec.Options.vlan"},
		{"a NetworkID that is a path", f.tenantNetwork("path", func(s *danmv1.NetworkSpec) { s.NetworkID = "../../etc/evil" }), "spec.NetworkID"},
		{"a NetworkType that is a path", f.tenantNetwork("type-path", func(s *danmv1.NetworkSpec) { s.NetworkType = "../x" }), "spec.NetworkType"},
		{"a ClusterNetwork", shared, noRight},
		{"a TenantConfig", &danmv1.TenantConfig{ObjectMeta: shared.ObjectMeta, HostDevices: []danmv1.HostDevice{{Name: nodeDevice}}}, noRight},
		{"a DomainClaim", &v1alpha1.DomainClaim{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DomainClaimName(v1alpha1.MaxDomainNumber)},
			Spec:       v1alpha1.DomainClaimSpec{Number: v1alpha1.MaxDomainNumber, Network: v1alpha1.NetworkReference(mine)},
		}, noRight},
		{"a HostVNIClaim", &v1alpha1.HostVNIClaim{
			ObjectMeta: metav1.ObjectMeta{Name: "vlan-3001." + offeredDevice},
			Spec:       v1alpha1.HostVNIClaimSpec{Type: "vlan", VNI: 3001, Device: offeredDevice, Network: mine},
		}, noRight},
	} {
		wantDenied(t, tt.name, f.editor.Client.Create(stage.Within(t, stage.Patience), tt.object), tt.why)
	}
}

// createsNoDanmNet has the user create a DanmNet, first with the role edit alone, then with the
// right to write DanmNets. This right is not enough in the namespace of a tenant.
func (f *forger) createsNoDanmNet(t *testing.T) {
	network := &danmv1.DanmNet{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace.Name, Name: "own"}, Spec: f.secret.Spec}
	other := danmiov1.DanmNet(*network)
	both := []client.Object{network, &other}
	for _, object := range both {
		wantDenied(t, "a DanmNet without rights", f.editor.Client.Create(stage.Within(t, stage.Patience), object), "cannot create resource")
	}
	f.Bind(t, f.Namespace.Name, stage.NameWith(f.Namespace.Name, "edit"), "alioth-danmnet-editor")
	err := scene.Until(stage.Within(t, stage.Patience), "the rights of an editor of DanmNets", func(ctx context.Context) (bool, string, error) {
		err := f.editor.Client.Create(ctx, network, client.DryRunAll)
		return err == nil || !strings.Contains(err.Error(), "cannot create resource"), fmt.Sprint(err), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range both {
		wantDenied(
			t,
			"a DanmNet without a grant",
			f.editor.Client.Create(stage.Within(t, stage.Patience), object),
			fmt.Sprintf("may not write DanmNets for the tenant %q", f.Name),
		)
	}
}

// editsNothing has the user change the operator's values in a TenantNetwork.
func (f *forger) editsNothing(t *testing.T, network *danmv1.TenantNetwork) {
	const number = "spec.Options.vlan: the Alioth operator chooses it"
	for _, tt := range []struct {
		name string
		edit func(*danmv1.TenantNetwork)
		why  string
	}{
		{"another device", func(n *danmv1.TenantNetwork) { n.Spec.Options.HostDevice = nodeDevice }, "host_device of a TenantNetwork can't change"},
		{"another VLAN", func(n *danmv1.TenantNetwork) { n.Spec.Options.VLAN = 300 }, number},
		{"another type", func(n *danmv1.TenantNetwork) { n.Spec.NetworkType = "bridge" }, `"bridge" is not offered`},
		{"a NetworkID that is a path", func(n *danmv1.TenantNetwork) { n.Spec.NetworkID = "../../etc/evil" }, "spec.NetworkID"},
		{"no finalizer", func(n *danmv1.TenantNetwork) { n.Finalizers = nil }, "only the Alioth operator removes the finalizer"},
	} {
		changed := network.DeepCopy()
		tt.edit(changed)
		wantDenied(t, tt.name, f.editor.Client.Patch(stage.Within(t, stage.Patience), changed, client.MergeFrom(network)), tt.why)
	}
	changed := network.DeepCopy()
	changed.Status.Pods, changed.Status.Conditions = 0, []metav1.Condition{{
		Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReadyReason, Message: "forged", LastTransitionTime: metav1.Now(),
	}}
	changed.Status.Profile = &danmv1.NetworkProfile{NetworkType: "macvlan", NetworkID: "mine", HostDevice: nodeDevice}
	err := f.editor.Client.Status().Patch(stage.Within(t, stage.Patience), changed, client.MergeFrom(network))
	wantDenied(t, "the status", err, "tenantnetworks/status")
	created := f.tenantNetwork("profiled", nil)
	created.Status = changed.Status
	if err := f.editor.Client.Create(stage.Within(t, stage.Patience), created); err != nil {
		t.Fatal(err)
	}
	f.RemoveAfter(t, created)
	if created.Status.Profile != nil {
		t.Errorf("a new TenantNetwork keeps the profile that a tenant has written: %+v", created.Status.Profile)
	}
	now := &danmv1.TenantNetwork{}
	if err := f.Client.Get(stage.Within(t, stage.Patience), client.ObjectKeyFromObject(network), now); err != nil {
		t.Fatal(err)
	}
	if p := now.Status.Profile; p == nil || *p != *network.Status.Profile || p.HostDevice != offeredDevice {
		t.Errorf("the TenantNetwork has the profile %+v, want %+v on %q", p, network.Status.Profile, offeredDevice)
	}
}
