// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package judgement

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/kinds/policies"
)

// world has the pods of two VPCs with one range, and the cluster's DNS in the default VPC.
func world() *Objects {
	o := New()
	o.Shared = []Name{{"kube-system", "kube-dns"}, {"default", "kubernetes"}}
	for name, labels := range map[string]map[string]string{
		"shop": {"team": "shop"}, "web": {"team": "web"}, "other": {"team": "shop"}, "kube-system": nil,
	} {
		o.Namespaces[name] = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	o.addPod("shop", "cart", "blue", map[string]string{"app": "cart", "pod-template-hash": "1"}, "10.0.0.1", "fd00::1")
	o.addPod("shop", "db-0", "blue", map[string]string{"app": "db"}, "10.0.0.2", "fd00::2")
	o.addPod("shop", "db-1", "blue", map[string]string{"app": "db", "old": "yes"}, "10.0.0.3", "fd00::3")
	o.addPod("web", "front", "blue", map[string]string{"app": "front"}, "10.0.0.4")
	o.addPod("other", "cart", "red", map[string]string{"app": "cart"}, "10.0.0.1")
	o.addPod("kube-system", "coredns", "default", map[string]string{"k8s-app": "kube-dns"}, "10.244.0.5")
	o.addService("shop", "db", "10.96.0.20", 5432, 15432, "db-0", "db-1")
	o.addService("kube-system", "kube-dns", "10.96.0.10", 53, 53, "coredns")
	o.addService("default", "kubernetes", "10.96.0.1", 443, 6443)
	o.Slices[len(o.Slices)-1].Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}}}
	return o
}

func (o *Objects) addPod(namespace, name, vpc string, labels map[string]string, ips ...string) {
	uid := namespace + "." + name
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid), Labels: labels}}
	pod.Status.HostIP = "192.0.2.9"
	pod.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "sql", ContainerPort: 15432}}}}
	o.Pods[Name{namespace, name}] = pod
	for _, ip := range ips {
		o.Addresses = append(o.Addresses, &v1alpha1.Address{Spec: v1alpha1.AddressSpec{
			VPC: vpc, IP: ip, Attachment: v1alpha1.PodAttachment,
			Holder: v1alpha1.AddressHolder{Kind: v1alpha1.HolderPod, Namespace: namespace, Name: name, UID: uid},
		}})
	}
}

func (o *Objects) addService(namespace, name, ip string, port, target int32, pods ...string) {
	o.Services[Name{namespace, name}] = &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: []corev1.ServicePort{
			{Name: "main", Port: port}, {Name: "udp", Port: port, Protocol: corev1.ProtocolUDP},
		}},
	}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Labels: map[string]string{discoveryv1.LabelServiceName: name},
	}}
	for _, one := range []struct {
		name     string
		protocol corev1.Protocol
	}{{"main", corev1.ProtocolTCP}, {"udp", corev1.ProtocolUDP}} {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &one.name, Protocol: &one.protocol, Port: &target})
	}
	for _, pod := range pods {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: pod}})
	}
	o.Slices = append(o.Slices, slice)
}

// policy adds a NetworkPolicy of the namespace shop with a spec.
func (o *Objects) policy(t *testing.T, name, spec string) {
	t.Helper()
	in := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	decode(t, spec, &in.Spec)
	o.AddNetworkPolicy(in)
}

// clusterPolicy adds a ClusterNetworkPolicy with a spec.
func (o *Objects) clusterPolicy(t *testing.T, name, spec string) {
	t.Helper()
	in := &v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	decode(t, spec, &in.Spec)
	o.AddClusterNetworkPolicy(in)
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
}

func (o *Objects) ask(t *testing.T, from, to string) (*Answer, error) {
	t.Helper()
	q := &Question{}
	var err error
	if q.From, err = ParseRef(from); err != nil {
		t.Fatal(err)
	}
	if q.To, q.Port, err = ParseTarget(to); err != nil {
		t.Fatal(err)
	}
	return o.Explain(q)
}

// must returns the answer to a question.
func (o *Objects) must(t *testing.T, from, to string) *Answer {
	t.Helper()
	a, err := o.ask(t, from, to)
	if err != nil {
		t.Fatalf("%s to %s: %v", from, to, err)
	}
	return a
}

func TestExplain_PolicyOfDB_EachFormDecides(t *testing.T) {
	ingress := func(rule string) string {
		return "{podSelector: {matchLabels: {app: db}}, ingress: [{" + rule + "}]}"
	}
	for name, c := range map[string]struct {
		spec, from, to string
		want           string
	}{
		"pods":                        {ingress("from: [{podSelector: {matchLabels: {app: cart}}}]"), "shop/cart", "shop/db-0:15432", Allowed},
		"pods by an expression":       {ingress("from: [{podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [cart]}]}}]"), "shop/cart", "shop/db-0:15432", Refused},
		"pods of another namespace":   {ingress("from: [{podSelector: {}}]"), "web/front", "shop/db-0:15432", Refused},
		"namespaces":                  {ingress("from: [{namespaceSelector: {matchLabels: {team: web}}}]"), "web/front", "shop/db-0:15432", Allowed},
		"namespace by its name":       {ingress("from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: web}}}]"), "web/front", "shop/db-0:15432", Allowed},
		"both selectors":              {ingress("from: [{namespaceSelector: {}, podSelector: {matchLabels: {app: cart}}}]"), "web/front", "shop/db-0:15432", Refused},
		"the named port":              {ingress("ports: [{port: sql}]"), "shop/cart", "shop/db-0:15432", Allowed},
		"the port by its name":        {ingress("ports: [{port: sql}]"), "shop/cart", "pod/shop/db-0:sql", Allowed},
		"another port":                {ingress("ports: [{port: sql}]"), "shop/cart", "shop/db-0:80", Refused},
		"the end of a range":          {ingress("ports: [{port: 80, endPort: 90}]"), "shop/cart", "shop/db-0:90", Allowed},
		"behind a range":              {ingress("ports: [{port: 80, endPort: 90}]"), "shop/cart", "shop/db-0:91", Refused},
		"another protocol":            {ingress("ports: [{port: 80}]"), "shop/cart", "shop/db-0:80/udp", Refused},
		"a client in a range":         {ingress("from: [{ipBlock: {cidr: 198.51.100.0/24, except: [198.51.100.8/32]}}]"), "198.51.100.7", "shop/db-0:80", Allowed},
		"a client in the exception":   {ingress("from: [{ipBlock: {cidr: 198.51.100.0/24, except: [198.51.100.8/32]}}]"), "198.51.100.8", "shop/db-0:80", Refused},
		"a client by IPv6":            {ingress("from: [{ipBlock: {cidr: '2001:db8::/64'}}]"), "2001:db8::1", "shop/db-0:80", Allowed},
		"a pod by its IP":             {ingress("from: [{podSelector: {matchLabels: {app: cart}}}]"), "10.0.0.1", "shop/db-0:80", Allowed},
		"a target by its IP":          {ingress(""), "shop/cart", "[fd00::2]:80", Allowed},
		"no rule":                     {"{podSelector: {}}", "shop/cart", "shop/db-0:80", Refused},
		"egress alone":                {"{podSelector: {}, policyTypes: [Egress]}", "web/front", "shop/db-0:80", Allowed},
		"egress of the sender":        {"{podSelector: {}, policyTypes: [Egress]}", "shop/cart", "203.0.113.1:443", Refused},
		"egress to outside":           {"{podSelector: {}, egress: [{to: [{ipBlock: {cidr: 0.0.0.0/0}}]}], policyTypes: [Egress]}", "shop/cart", "203.0.113.1:443", Allowed},
		"a pod that is not selected":  {ingress(""), "shop/db-0", "shop/cart:80", Allowed},
		"the pod itself":              {"{podSelector: {}, policyTypes: [Ingress, Egress]}", "shop/db-0", "shop/db-0:80", Allowed},
		"pods of another VPC":         {ingress(""), "other/cart", "shop/db-0:80", Unreachable},
		"the range of another VPC":    {ingress("from: [{ipBlock: {cidr: 10.0.0.0/8}}]"), "other/cart", "shop/db-0:80", Unreachable},
		"families with two verdicts":  {ingress("from: [{ipBlock: {cidr: 10.0.0.0/8}}]"), "shop/cart", "shop/db-0:80", Refused},
		"a rule that can't be read":   {ingress("from: [{ipBlock: {cidr: 10.0.0.0/99}}]"), "shop/cart", "shop/db-0:80", Refused},
		"no policy that can be read":  {"{podSelector: {matchLabels: {'-': x}}}", "shop/cart", "shop/db-0:80", Allowed},
		"a Service with one refusal":  {"{podSelector: {matchLabels: {old: 'yes'}}}", "shop/cart", "svc/shop/db:5432", Refused},
		"a Service at its own port":   {ingress("ports: [{port: 5432}]"), "shop/cart", "svc/shop/db:main", Refused},
		"a Service at its pods' port": {ingress("ports: [{port: 15432}]"), "shop/cart", "10.96.0.20:5432", Allowed},
	} {
		t.Run(name, func(t *testing.T) {
			o := world()
			o.policy(t, "p", c.spec)
			a := o.must(t, c.from, c.to)
			if a.Verdict != c.want {
				t.Errorf("%s, want %s: %s", a.Verdict, c.want, formatted(t, a))
			}
		})
	}
}

func formatted(t *testing.T, a *Answer) string {
	t.Helper()
	text, err := json.MarshalIndent(a, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestExplain_Tiers_FirstMatchingRuleNamed(t *testing.T) {
	const deny = `{tier: Admin, priority: 10, subject: {namespaces: {}}, ingress: [
		{name: in-between, action: Pass, from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: cart}}}}]},
		{name: none, action: Deny, from: [{namespaces: {}}]}]}`
	const baseline = `{tier: Baseline, priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}`
	for name, c := range map[string]struct {
		from, policy, want string
	}{
		"denied by Admin":            {"web/front", "{podSelector: {}, ingress: [{}]}", `ClusterNetworkPolicy admin denies it by spec.ingress[1] ("none"), tier Admin, priority 10`},
		"passed to NetworkPolicies":  {"shop/cart", "{podSelector: {}, ingress: [{}]}", `NetworkPolicy shop/p accepts it by spec.ingress[0]`},
		"passed, and no rule":        {"shop/cart", "{podSelector: {}}", `NetworkPolicy shop/p isolates the pod for ingress, and no rule accepts the packet`},
		"passed through to Baseline": {"shop/cart", "", `ClusterNetworkPolicy base denies it by spec.ingress[0], tier Baseline, priority 1`},
	} {
		o := world()
		o.clusterPolicy(t, "admin", deny)
		o.clusterPolicy(t, "base", baseline)
		if c.policy != "" {
			o.policy(t, "p", c.policy)
		}
		a := o.must(t, c.from, "shop/db-0:80")
		if got := a.Paths[0].Ingress.Text; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestExplain_SharedService_BothAddressesMatch has the rules that people have for DNS and the API
// server.
func TestExplain_SharedService_BothAddressesMatch(t *testing.T) {
	egress := func(rule string) string {
		return "{podSelector: {}, policyTypes: [Egress], egress: [{to: [" + rule + "]}]}"
	}
	for name, c := range map[string]struct{ spec, to, want string }{
		"DNS by labels": {
			egress("{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}, podSelector: {matchLabels: {k8s-app: kube-dns}}}"),
			"svc/kube-system/kube-dns:53/udp", Allowed,
		},
		"DNS by its ClusterIP":             {egress("{ipBlock: {cidr: 10.96.0.10/32}}"), "10.96.0.10:53/udp", Allowed},
		"DNS by another rule":              {egress("{podSelector: {}}"), "svc/kube-system/kube-dns:53/udp", Refused},
		"the API server by its ClusterIP":  {egress("{ipBlock: {cidr: 10.96.0.1/32}}"), "svc/default/kubernetes:443", Allowed},
		"the API server by its addresses":  {egress("{ipBlock: {cidr: 192.0.2.0/24}}"), "svc/default/kubernetes:443", Allowed},
		"the API server by another range":  {egress("{ipBlock: {cidr: 198.51.100.0/24}}"), "svc/default/kubernetes:443", Refused},
		"a backend without its Service":    {egress("{namespaceSelector: {}}"), "kube-system/coredns:53", Unreachable},
		"an ordinary Service's virtual IP": {egress("{ipBlock: {cidr: 10.96.0.20/32}}"), "svc/shop/db:5432", Refused},
	} {
		o := world()
		o.policy(t, "p", c.spec)
		if a := o.must(t, "shop/cart", c.to); a.Verdict != c.want {
			t.Errorf("%s: %s, want %s: %s", name, a.Verdict, c.want, formatted(t, a))
		}
	}
	for spec, want := range map[string]string{
		"from: [{namespaceSelector: {}}]":                          Allowed,
		"from: [{namespaceSelector: {matchLabels: {team: shop}}}]": Refused,
		"from: [{ipBlock: {cidr: 192.0.2.9/32}}]":                  Allowed,
	} {
		o := world()
		in := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "dns"}}
		decode(t, "{podSelector: {}, ingress: [{"+spec+"}]}", &in.Spec)
		o.AddNetworkPolicy(in)
		if a := o.must(t, "shop/cart", "svc/kube-system/kube-dns:53/udp"); a.Verdict != want {
			t.Errorf("%s: %s, want %s", spec, a.Verdict, want)
		}
	}
}

// TestRemedy_Added_PacketAllowed: a proposed rule does what it promises.
func TestRemedy_Added_PacketAllowed(t *testing.T) {
	for _, c := range [][2]string{
		{"shop/cart", "shop/db-0:15432"},
		{"web/front", "shop/db-0:15432/udp"},
		{"198.51.100.7", "shop/db-0:80"},
		{"2001:db8::7", "shop/db-0:80"},
		{"shop/cart", "203.0.113.1:443"},
		{"shop/cart", "[2001:db8::1]:443/sctp"},
		{"shop/cart", "svc/kube-system/kube-dns:53/udp"},
		{"shop/cart", "svc/default/kubernetes:443"},
		{"shop/cart", "svc/shop/db:5432"},
	} {
		for _, tier := range []string{"Admin", "Namespaced", "Baseline"} {
			o := world()
			const all = "[{namespaces: {}}, {networks: [0.0.0.0/0, '::/0']}]"
			if tier == "Namespaced" {
				o.policy(t, "p", "{podSelector: {}, policyTypes: [Ingress, Egress]}")
			} else {
				o.clusterPolicy(t, "c", "{tier: "+tier+", priority: 5, subject: {namespaces: {}}, egress: [{action: Deny, to: "+all+"}], ingress: [{action: Deny, from: [{namespaces: {}}]}]}")
			}
			for a, n := o.must(t, c[0], c[1]), 0; a.Verdict != Allowed; a, n = o.must(t, c[0], c[1]), n+1 {
				if n > 6 {
					t.Errorf("%s, %v: still %s after %d remedies: %s", tier, c, a.Verdict, n, formatted(t, a))
					break
				}
				o.apply(t, a, n)
			}
		}
	}
}

// apply adds the first proposed rule of an answer, in a policy of its own.
func (o *Objects) apply(t *testing.T, a *Answer, n int) {
	t.Helper()
	for _, path := range a.Paths {
		for _, decision := range []struct {
			*Decision
			of Party
		}{{path.Egress, path.From}, {path.Ingress, path.To}} {
			if decision.Decision == nil || decision.Remedy == nil {
				continue
			}
			name := "remedy" + strings.Repeat("x", n)
			if decision.Tier == "Admin" {
				spec := &v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
				decode(t, decision.Remedy.Rule, &spec.Spec)
				spec.Spec.Tier, spec.Spec.Subject.Namespaces = v1alpha2.AdminTier, &metav1.LabelSelector{}
				o.AddClusterNetworkPolicy(spec)
				return
			}
			namespace, _, _ := strings.Cut(decision.of.Name, "/")
			in := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
			decode(t, decision.Remedy.Rule, &in.Spec)
			in.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
			if decision.Decision == path.Egress {
				in.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}
			}
			o.AddNetworkPolicy(in)
			return
		}
	}
	t.Fatalf("no remedy in %s", formatted(t, a))
}

func TestRemedy_LabelsOfOneVersion_LeftOut(t *testing.T) {
	o := world()
	o.policy(t, "p", "{podSelector: {matchLabels: {app: db}}}")
	remedy := o.must(t, "shop/cart", "shop/db-0:80").Paths[0].Ingress.Remedy
	const want = `ingress:
- from:
  - podSelector:
      matchLabels:
        app: cart
  ports:
  - port: 80
    protocol: TCP
`
	if remedy.Rule != want || remedy.Text != "this rule in NetworkPolicy shop/p" {
		t.Errorf("%s:\n%s", remedy.Text, remedy.Rule)
	}
}

func TestExplain_InvalidParts_ReportedByName(t *testing.T) {
	o := world()
	o.policy(t, "range", "{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/99}}]}]}")
	o.policy(t, "selector", "{podSelector: {matchLabels: {'-': x}}}")
	o.clusterPolicy(t, "nodes", "{tier: Admin, priority: 1, subject: {namespaces: {}}, egress: [{action: Accept, to: [{nodes: {}}]}]}")
	want := []string{
		"NetworkPolicy shop/range: CIDR", "NetworkPolicy shop/selector: read selector", "ClusterNetworkPolicy nodes: peers by nodes",
	}
	a := o.must(t, "shop/cart", "shop/db-0:80")
	if len(a.Problems) != len(want) {
		t.Fatalf("problems: %v", a.Problems)
	}
	for i, problem := range a.Problems {
		if text := problem.Policy + ": " + problem.Problem; !strings.HasPrefix(text, want[i]) {
			t.Errorf("%q, want %q", text, want[i])
		}
	}
}

func TestExplain_Families_OwnPathsWhereVerdictsDiffer(t *testing.T) {
	o := world()
	if a := o.must(t, "shop/cart", "shop/db-0:80"); len(a.Paths) != 1 || strings.Join(a.Paths[0].To.IPs, " ") != "10.0.0.2 fd00::2" {
		t.Errorf("without a policy: %s", formatted(t, a))
	}
	o.policy(t, "p", "{podSelector: {matchLabels: {app: db}}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8}}]}]}")
	a := o.must(t, "shop/cart", "shop/db-0:80")
	if len(a.Paths) != 2 || a.Paths[0].Verdict != Allowed || a.Paths[1].Verdict != Refused || a.Paths[1].From.IPs[0] != "fd00::1" {
		t.Errorf("with a policy for IPv4: %s", formatted(t, a))
	}
}

func TestExplain_Impossible_ErrorNamesCause(t *testing.T) {
	o := world()
	o.Services[Name{"shop", "headless"}] = &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}}
	o.Services[Name{"shop", "name"}] = &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName}}
	o.Pods[Name{"shop", "waits"}] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "waits"}}
	for _, c := range [][3]string{
		{"shop/none", "shop/db-0:80", "the cluster has no Pod shop/none"},
		{"shop/waits", "shop/db-0:80", "has no Address"},
		{"deploy/shop/cart", "shop/db-0:80", "in a cluster, name a pod"},
		{"shop/cart", "svc/shop/none:80", "the cluster has no Service shop/none"},
		{"shop/cart", "svc/shop/headless:80", "is headless"},
		{"shop/cart", "svc/shop/name:80", "ExternalName"},
		{"shop/cart", "svc/shop/db:80", "has no port 80/TCP; it has: 5432/TCP main, 5432/UDP udp"},
		{"shop/cart", "shop/db-0:http", "has no port with the name http/TCP"},
		{"svc/shop/db", "shop/db-0:80", "sends no packets"},
		{"10.96.0.20", "shop/db-0:80", "sends no packets"},
		{"198.51.100.1", "203.0.113.1:80", "one end has to be such a pod"},
	} {
		if a, err := o.ask(t, c[0], c[1]); err == nil || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%v: got %v, %v", c, a, err)
		}
	}
}

func TestExplain_MultiNetworkPolicy_InItsNetworkOnly(t *testing.T) {
	o := world()
	in := &policies.MultiNetworkPolicy{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "p", Annotations: map[string]string{policies.PolicyFor: "fast"},
	}}
	o.AddMultiNetworkPolicy(in)
	for _, name := range []string{"cart", "db-0"} {
		o.Pods[Name{"shop", name}].Annotations = map[string]string{
			"k8s.v1.cni.cncf.io/network-status": `[{"name": "fast", "ips": ["172.16.0.` + map[string]string{"cart": "1", "db-0": "2"}[name] + `"]}]`,
		}
	}
	ask := func(network string) (*Answer, error) {
		return o.Explain(&Question{
			From: Ref{Sort: Pod, Name: Name{"shop", "cart"}}, To: Ref{Sort: IP, IP: netip.MustParseAddr("172.16.0.2")},
			Port: Port{Number: 80, Protocol: "TCP"}, Network: network,
		})
	}
	if a, err := ask("shop/fast"); err != nil || a.Verdict != Refused || a.Paths[0].Ingress.Policy != "MultiNetworkPolicy shop/p" {
		t.Errorf("in its network: %v, %v", a, err)
	}
	if _, err := ask("shop/slow"); err == nil || !strings.Contains(err.Error(), "no interface in network shop/slow") {
		t.Errorf("in a network without the pod: %v", err)
	}
	if a := o.must(t, "shop/cart", "shop/db-0:80"); a.Verdict != Allowed {
		t.Errorf("in the VPC: %s", formatted(t, a))
	}
}

func TestExplain_Files_TemplatesAndNetworksDescribePods(t *testing.T) {
	o := New()
	o.FromFiles = true
	for _, ref := range []Ref{{Sort: Deployment, Name: Name{"shop", "cart"}}, {Sort: StatefulSet, Name: Name{"shop", "db"}}} {
		template := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": ref.Name.Name}}}
		template.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "sql", ContainerPort: 15432}}}}
		o.Templates[ref] = template
	}
	o.policy(t, "p", "{podSelector: {matchLabels: {app: db}}, ingress: [{from: [{podSelector: {matchLabels: {app: cart}}}]}]}")
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
	decode(t, "{selector: {app: db}, ports: [{port: 5432, targetPort: sql}]}", &service.Spec)
	o.Services[Name{"shop", "db"}] = service
	a := o.must(t, "deploy/shop/cart", "svc/shop/db:5432")
	if a.Verdict != Allowed || a.Paths[0].Port != "15432/TCP" || a.Paths[0].To.Kind != string(StatefulSet) {
		t.Errorf("the Service: %s", formatted(t, a))
	}
	if a := o.must(t, "sts/shop/db", "sts/shop/db:sql"); a.Verdict != Refused || len(a.Notes) != 1 {
		t.Errorf("a second pod of the template: %s", formatted(t, a))
	}
	o.policy(t, "range", "{podSelector: {}, egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8}}]}]}")
	if a := o.must(t, "deploy/shop/cart", "sts/shop/db:80"); len(a.Notes) != 3 || !strings.Contains(a.Notes[1], "no rule by addresses matches it") {
		t.Errorf("unknown addresses: %q", a.Notes)
	}
	for _, network := range []string{"default", "fast"} {
		in := &arktosv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: network}}
		in.Spec = arktosv1.NetworkSpec{Type: arktosv1.TypeVPC, VPCID: "vpc-" + network}
		o.Networks = append(o.Networks, in)
	}
	o.Templates[Ref{Sort: Deployment, Name: Name{"shop", "cart"}}].Labels[arktosv1.NetworkLabel] = "fast"
	a = o.must(t, "deploy/shop/cart", "sts/shop/db:80")
	if a.Verdict != Unreachable || a.Paths[0].From.VPC != "vpc-fast" || a.Paths[0].To.VPC != "vpc-default" {
		t.Errorf("in two VPCs: %s", formatted(t, a))
	}
	if _, err := o.ask(t, "shop/none", "sts/shop/db:80"); err == nil || !strings.Contains(err.Error(), "deploy/shop/none") {
		t.Errorf("a missing pod: %v", err)
	}
}

func TestParse_Arguments_ReadOrRefused(t *testing.T) {
	for text, want := range map[string]string{
		"shop/db:80": "Pod shop/db 80/TCP", "svc/shop/db:http/udp": "Service shop/db http/UDP", "[fd00::1]:53/SCTP": "fd00::1 53/SCTP",
		"192.0.2.1:80/tcp": "192.0.2.1 80/TCP", "deployments/shop/db:80": "Deployment shop/db 80/TCP", "Job/a/b:1": "Job a/b 1/TCP",
		"shop/db": "", "fd00::1:80": "", "db:80": "", "a/b/c/d:80": "", "tree/a/b:80": "", "a/b:0": "", "a/b:70000": "", "a/b:80/icmp": "", "a/b:": "", "/b:80": "",
	} {
		ref, port, err := ParseTarget(text)
		if got := ref.String() + " " + port.String(); (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%s is %q (%v), want %q", text, got, err, want)
		}
	}
}
