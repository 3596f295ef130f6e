// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package typed

// Reasons of several blocks.
const (
	asAFunction = "builds or tests the whole work tree, as the steps of `make test` do"
	fromTheWeb  = "clones from the forge, which tests do not reach"
	ofARelease  = "needs the files of a published release; TestBuild_OtherFolder_SameRelease builds one, and TestManifests_Containers_RunReleaseImage reads its manifests"
	registry    = "needs a registry, and programs that the repository does not build"
	installs    = "is typed in another order, by TestPages_InstallAndUninstall_WorkOnLab"
	beside      = "needs a cluster with another network; TestAlioth_BesideOtherNetwork_ComesAndGoes asks preflight there"
	whole       = "needs a cluster with another network; TestAlioth_BesideOtherNetwork_ComesAndGoes installs on all nodes at once"
	moves       = "needs a cluster with another network; TestNodes_MoveOneByOne_PodsStayConnected types it there"
	atBoots     = "installs a unit of systemd, which the lab's nodes lack; TestBootUnit_InstallAndUninstall_UnitFollows installs it"
	competes    = "competes with the daemons and operators of the lab; TestPolicyHandle_Kubeconfig_PoliciesHandled runs it without them"
	bonds       = "needs two devices for a bond, and a kernel with bonds; TestNmstatePolicies_EachKind_AppliedChangedRemoved has both"
	changesTree = "changes the sources of the work tree under test; TestContributing_FirstChange_TextsExist looks that its texts are there"
)

// follows ends commands that follow events, as a person does after some seconds. findings lets
// a finding of aliothctl, its exit status 1, pass.
const (
	follows  = `aliothctl() { local status=0; timeout -s INT 5 "$(type -P aliothctl)" "$@" || status=$?; [ $status = 0 ] || [ $status = 124 ]; }`
	findings = `aliothctl() { "$(type -P aliothctl)" "$@" || [ $? = 1 ]; }`
)

// The lab's own values, which the commands of pages about upgrades presuppose in values.yaml.
const values = "helm get values alioth --namespace alioth-system --output yaml > values.yaml"

// example applies an example, and gone removes one.
func example(folder string) string {
	return "kubectl apply -f docs/examples/" + folder + "/cluster.yaml && for try in $(seq 30); do kubectl apply -f docs/examples/" + folder + "/tenant.yaml && break; sleep 1; done"
}

func gone(folder string) string {
	return "kubectl delete --ignore-not-found --timeout 3m -f docs/examples/" + folder
}

// Table has the blocks of commands of each page, in their order.
var Table = map[string]Page{
	"README.md": {Entries: []Entry{
		{Begins: "make demo", NotHere: "the demo is what runs the test; `make test-demo` is both"},
		{Begins: "export PATH="},
	}},
	"CONTRIBUTING.md": {Entries: []Entry{
		{Begins: "git clone", NotHere: fromTheWeb},
		{Begins: "sed -i", NotHere: changesTree},
		{Begins: "sed -i", NotHere: changesTree},
		{Begins: "make lint", NotHere: asAFunction},
		{Begins: ".cluster/bin/kubectl get pods"},
		{
			Begins: ".cluster/bin/helm upgrade",
			After:  "helm upgrade alioth helm/alioth --namespace alioth-system --reuse-values --set log.level=info --wait",
		},
	}},
	"docs/install/existing-network.md": {Entries: []Entry{
		{Begins: "aliothctl preflight --values values.yaml", NotHere: beside},
		{Begins: "kubectl -n kube-system patch", NotHere: moves},
		{Begins: "helm install alioth helm/alioth", NotHere: moves},
		{Begins: "kubectl drain NODE --ignore-daemonsets", NotHere: moves},
		{Begins: "kubectl -n kube-system patch", NotHere: moves},
		{Begins: "helm upgrade alioth helm/alioth", NotHere: whole},
		{Begins: "kubectl drain NODE --ignore-daemonsets", NotHere: moves},
		{Begins: "alioth-cnid uninstall --node-name NODE", NotHere: moves},
		{Begins: "holders=$(kubectl", NotHere: moves},
	}},
	"docs/install/install.md": {Entries: []Entry{
		{Begins: "git clone", NotHere: fromTheWeb},
		{Begins: "ctr -n k8s.io images import", NotHere: ofARelease},
		{Begins: "VERSION=", NotHere: registry},
		{Begins: "aliothctl preflight", Before: values + "\n" + findings},
		{Begins: "kubectl create namespace", NotHere: installs},
		{Begins: "helm install", NotHere: installs},
		{Begins: "kubectl -n alioth-system rollout status"},
	}},
	"docs/install/preflight.md": {Entries: []Entry{
		{Begins: "aliothctl preflight", Before: values + "\n" + findings + "\nsudo() { \"$@\"; }"},
	}},
	"docs/install/releases.md": {Entries: []Entry{
		{Begins: "sha256sum", NotHere: ofARelease},
		{Begins: "git clone", NotHere: fromTheWeb},
		{Begins: "minisign", NotHere: "needs the keys of a published release"},
		{Begins: "ctr -n k8s.io images import", NotHere: registry},
		{Begins: "helm install", NotHere: ofARelease},
		{Begins: "sed -i", NotHere: ofARelease},
	}},
	"docs/install/uninstall.md": {Entries: []Entry{
		{Begins: "helm uninstall", NotHere: installs},
		{Begins: "kubectl get crd", NotHere: installs},
		{
			Begins:  "alioth-cnid uninstall",
			NotHere: "takes Alioth from a node of the lab; TestChart_InstallationToRemoval_NothingLeft looks that an uninstall leaves nothing",
		},
	}},
	"docs/install/versions.md": {Entries: []Entry{{Begins: "kubectl get nodes"}}},
	"docs/migrate/multus.md": {
		Before: example("11-danm-network"), After: gone("11-danm-network"),
		Entries: []Entry{{Begins: "kubectl get network-attachment-definitions"}},
	},
	"docs/operate/backup.md": {Entries: []Entry{
		{Begins: "etcdctl snapshot save", NotHere: restored, OnNode: true},
		{Begins: "kubectl get vpcs.alioth.dev"},
		{Begins: "kubectl get clusternetworks.danm.k8s.io"},
		{Begins: "kubectl get vpcs"},
	}},
	"docs/operate/disaster.md": {Entries: []Entry{
		{Begins: "etcdutl", NotHere: restored, OnNode: true},
		{Begins: "aliothctl verify", NotHere: restored, Before: findings},
		{Begins: "kubectl -n alioth-system rollout restart", NotHere: restored},
	}},
	"docs/operate/monitoring.md": {
		Before: "kubectl create namespace monitoring && kubectl -n monitoring create serviceaccount prometheus",
		After:  "kubectl delete clusterrolebinding prometheus-alioth; kubectl delete namespace monitoring",
		Entries: []Entry{
			{Begins: "kubectl create clusterrolebinding"},
			{Begins: "curl -k", OnNode: true, Before: "TOKEN=$(kubectl --namespace monitoring create token prometheus)"},
		},
	},
	"docs/operate/node-ipam-api.md": {Entries: []Entry{
		{
			Begins:  "curl",
			NotHere: "needs the opt-in port nodeIPAM.listen; TestLoopbackServer_PortGuardedAndFree_Listens asks it",
		},
		{Begins: "kube-proxy", NotHere: "runs kube-proxy for good; TestServices_KubeProxyBeside_Unchanged runs one"},
	}},
	"docs/operate/node-network-policies.md": {Entries: []Entry{
		{Begins: "helm upgrade"},
		{Begins: "aliothctl state install", NotHere: atBoots},
		{Begins: "kubectl wait nncp storage", NotHere: bonds},
		{Begins: "kubectl patch nns node2", After: `kubectl patch nns node2 --type merge -p '{"spec":{"managed":true}}'`},
		{
			Begins: "aliothctl state show",
			OnNode: true,
			Before: inAFolder + bridge("desired.yaml", "up") + "\naliothctl state apply desired.yaml",
			After:  "node-exec node1 bash -c " + `'printf "interfaces: [{name: docbr0, type: linux-bridge, state: absent}]\n" | aliothctl state apply -'`,
		},
		{Begins: "cat helm/alioth/files/crds", NotHere: competes},
	}},
	"docs/operate/node-network-state.md": {Entries: []Entry{
		{Begins: "aliothctl state show", OnNode: true},
		{Begins: "aliothctl state apply storage.yaml", OnNode: true, Before: inAFolder + bridge("storage.yaml", "up")},
		{Begins: "aliothctl state apply uplink.yaml", OnNode: true, Before: inAFolder + bridge("uplink.yaml", "absent")},
		{Begins: "aliothctl state install", NotHere: atBoots},
		{Begins: "aliothctl state handle", NotHere: competes},
	}},
	"docs/operate/roles.md": {Entries: []Entry{
		{Begins: "helm upgrade"},
		{Begins: "kubectl label node node1", After: "kubectl label node node1 alioth.node-restriction.kubernetes.io/role-"},
		{
			Begins: "kubectl patch subnets.alioth.dev",
			After:  `kubectl patch vpcs.alioth.dev customer-a --type json -p '[{"op":"remove","path":"/spec/dividers"}]'; kubectl patch subnets.alioth.dev customer-a-net1 --type json -p '[{"op":"remove","path":"/spec/bouncers"}]'`,
		},
	}},
	"docs/operate/scale/README.md": {Entries: []Entry{
		{
			Begins:  "make bench-scale",
			NotHere: "takes a quarter of an hour of a machine without other work: `make bench-scale`",
		},
		{
			Begins:  "go run ./test/bench/scalelab",
			NotHere: "takes minutes of a machine without other work: `make bench-scale`",
		},
	}},
	"docs/operate/upgrade.md": {Entries: []Entry{
		{Begins: "helm get values"},
		{Begins: "helm upgrade"},
		{Begins: "helm upgrade"},
		{
			Begins: "kubectl --namespace alioth-system delete pod",
			After:  "kubectl -n alioth-system rollout status daemonset/alioth-cnid",
		},
		{Begins: "helm history"},
		{
			Begins:  "helm rollback",
			NotHere: "needs an older release; TestUpgradeAndDowngrade_TrafficFlows_Unnoticed goes back to one",
		},
	}},
	"docs/tenants/multi-network.md": {
		Before: example("11-danm-network"), After: gone("11-danm-network"),
		Entries: []Entry{{Begins: "kubectl get attachmentclaims"}},
	},
	"docs/tenants/policies.md": {
		Before: example(
			"01-first-tenant",
		) + "\nkubectl -n first wait --for=condition=Ready pods --all --timeout=2m", After: gone("01-first-tenant"),
		Entries: []Entry{
			{
				Begins:  "aliothctl netpol explain --offline",
				NotHere: "reads the manifest of the page; TestPage_OfflineExample_AnswerAsPrinted does so without a lab",
			},
			{
				Begins:  "aliothctl netpol lint --offline",
				NotHere: "reads the same manifest; TestPage_LintExample_FindingsAsPrinted does so without a lab",
			},
			{Begins: "aliothctl netpol explain first/client"},
		},
	},
	"docs/tenants/sriov.md": {Entries: []Entry{
		{Begins: "ip -details link show fast1", NotHere: "needs an adapter with virtual functions: `make test-hardware`"},
	}},
	"docs/troubleshoot/README.md": {
		Before: example(
			"05-services",
		) + "\nkubectl apply -f docs/examples/14-node-network-policy/policy.yaml\nkubectl -n serving wait --for=condition=Ready pods --all --timeout=2m",
		After: gone("05-services") + "\n" + gone("14-node-network-policy"),
		Entries: []Entry{
			{Begins: "kubectl -n $NAMESPACE describe pod"},
			{Begins: "kubectl -n $NAMESPACE describe pod"},
			{Begins: "aliothctl trace", Before: follows},
			{Begins: "kubectl -n $NAMESPACE describe service"},
			{Begins: "kubectl get sharedservices"},
			{Begins: "kubectl -n $NAMESPACE describe pod", Before: follows},
			{Begins: "kubectl -n $NAMESPACE describe service"},
			{Begins: "aliothctl trace", Before: findings}, // the VPC has no egress
			{Begins: "aliothctl status"},
			{Begins: "kubectl describe node"},
			{Begins: "kubectl get vpcs"},
			{Begins: "kubectl get nncp"},
			{Begins: "kubectl -n $NAMESPACE describe pod"},
		},
	},
	"docs/troubleshoot/aliothctl.md": {
		Before: example(
			"01-first-tenant",
		) + "\nkubectl -n first wait --for=condition=Ready pods --all --timeout=2m", After: gone("01-first-tenant"),
		Entries: []Entry{
			{Begins: "aliothctl trace first/client", Before: findings + "\n" + followsFindings},
			{
				Begins:  "install aliothctl",
				NotHere: "writes into /usr/local/bin of the machine; the lab has the same names in its folder of programs",
			},
			{Begins: "kubectl alioth status"},
		},
	},
	"docs/troubleshoot/lost-packets.md": {Entries: []Entry{
		{Begins: "aliothctl trace customer-a/db-1 10.10.2.12:7001"},
		{Begins: "aliothctl trace customer-a/db-1 10.10.1.200:80", Before: findings},
		{Begins: "aliothctl trace customer-a/db-1 10.96.0.10:53"},
		{Begins: "aliothctl drops --vpc customer-a"},
		{Begins: "aliothctl flows --pod customer-a/db-1"},
	}},
	"docs/troubleshoot/verify.md": {Entries: []Entry{
		{
			Begins:  "aliothctl verify",
			NotHere: "shows a difference, which a lab without faults has not; TestNodeState_DeletedByHand_Repaired makes some",
		},
	}},
}

// restored is why the commands of the page about disasters are apart.
const restored = "is typed after a restore, by TestEtcd_RestoredWhilePodsRun_PagesHold"

// followsFindings lets both pass: commands that follow, and findings.
const followsFindings = `aliothctl() { local status=0; timeout -s INT 20 "$(type -P aliothctl)" "$@" || status=$?; [ $status -le 1 ] || [ $status = 124 ]; }`

// inAFolder makes a folder on the node for the documents of a page.
const inAFolder = "cd $(mktemp -d)\n"

// bridge writes the document of a bridge, which every kernel has.
func bridge(file, state string) string {
	return `printf 'interfaces: [{name: docbr0, type: linux-bridge, state: ` + state + `}]\n' > ` + file
}
