// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid"
	"github.com/alioth-net/alioth/helm"
	"github.com/alioth-net/alioth/test/api/chart"
)

func TestChart_StrictLint_Passes(t *testing.T) {
	helm := chart.New(t, root, nil)
	if _, err := helm.Run(t.Context(), append([]string{"lint", "--strict", "CHART"}, chart.RequiredValues()...)...); err != nil {
		t.Error(err)
	}
}

// refused.yaml has the values that are refused.
func TestChart_UnknownValue_Refused(t *testing.T) {
	helm := chart.New(t, root, nil)
	for set, want := range map[string]string{"apiserver.host=192.0.2.1": "'apiserver' not allowed", "operator.replica=2": "'replica' not allowed"} {
		if _, err := helm.Template(t.Context(), "--set", set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", set, err, want)
		}
	}
}

func TestChart_DocumentedValues_Accepted(t *testing.T) {
	helm := chart.New(t, root, nil)
	for _, tt := range []struct{ name, set string }{
		{"a default VPC for everybody", "defaultVPC.allowedTenants={*}"},
		{"a default VPC for one tenant beside those without a label", "defaultVPC.allowedTenants={ns:*,customer-a}"},
		{"an API server by name", "apiServer.host=api.example.com"},
		{"an API server by IPv6 address", "apiServer.host=2001:db8::10"},
		{"updates by percentage", "daemon.maxUnavailable=25%"},
		{"daemons that a person replaces", "daemon.updateStrategy=OnDelete"},
		{"values of a release before these", "upgrade=null,daemon.updateStrategy=null"},
		{"one operator", "operator.replicas=1"},
		{"netkit where the kernel has it", "daemon.podDevice=auto"},
		{"one family", "defaultVPC.cidrs={10.244.0.0/16},defaultVPC.subnets[0].name=default,defaultVPC.subnets[0].cidrs={10.244.0.0/16}"},
		{"pull secrets", "imagePullSecrets[0].name=registry"},
		{"one interface per pod", "multiNetwork.enabled=false"},
		{"nodes' networks, decided by the operator", "nodeNetworkState.enabled=true,nodeNetworkState.policyMode=centralized"},
		{"node IPAM with devices", nodeIPAMOn + ",nodeIPAM.devices={enP*,eth?}"},
		{"node IPAM by TCP", nodeIPAMOn + ",nodeIPAM.listen=localhost:10090,nodeIPAM.podCgroup=/sys/fs/cgroup/kubepods"},
		{"node IPAM in one group", nodeIPAMOn + ",nodeIPAM.groups={acn.azure.com}"},
		{"DANM's UDP port, beside tunnels at another one", "hostLinks.vxlanPort=4789,tunnelPort=14789"},
		{"the kernel's UDP port", "hostLinks.vxlanPort=8472"},
		{"DANM's old names and flannel's networks", "multiNetwork.namingScheme=legacy,multiNetwork.vpcTypes={flannel}"},
	} {
		if _, err := helm.Template(t.Context(), "--set", tt.set); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// rendered returns the objects of a kind by name.
func rendered(t *testing.T, kind string, args ...string) map[string]*unstructured.Unstructured {
	t.Helper()
	objects, err := chart.New(t, root, nil).Template(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*unstructured.Unstructured{}
	for _, object := range objects {
		if object.GetKind() == kind {
			found[object.GetName()] = object
		}
	}
	return found
}

func TestChart_PodDevice_ReachesDaemonArguments(t *testing.T) {
	for set, want := range map[string]string{"image.tag=x": "--pod-device=veth", "daemon.podDevice=auto": "--pod-device=auto"} {
		daemon := rendered(t, "DaemonSet", "--set", set)["alioth-cnid"]
		containers, _, err := unstructured.NestedSlice(daemon.Object, "spec", "template", "spec", "containers")
		if err != nil || len(containers) == 0 {
			t.Fatalf("containers are %v, %v", containers, err)
		}
		args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
		if err != nil || !slices.Contains(args, want) {
			t.Errorf("%s: arguments are %v, %v, want %s among them", set, args, err, want)
		}
	}
}

// Each container runs the same image: by its digest, which nobody can move, or else by its tag.
func TestChart_ImageDigest_OverridesTag(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	for set, want := range map[string]string{
		"image.repository=a.example/b,image.tag=x":                                "a.example/b:x",
		"image.repository=a.example/b,image.tag=x,image.digest=":                  "a.example/b:x",
		"image.repository=a.example/b,image.digest=" + digest:                     "a.example/b@" + digest,
		"image.repository=a.example/b,image.tag=x,image.digest=" + digest:         "a.example/b@" + digest,
		"image.repository=a.example/b@sha256,image.tag=" + digest[7:]:             "a.example/b@" + digest,
		"image.repository=a.example/b,image.tag=x,image.digest=null,upgrade=null": "a.example/b:x",
	} {
		text, err := chart.New(t, root, nil).Run(t.Context(), append([]string{"template", "CHART", "--set", set}, chart.RequiredValues()...)...)
		if err != nil {
			t.Fatal(err)
		}
		images := regexp.MustCompile(`(?m)^ +image: (.*)$`).FindAllStringSubmatch(text, -1)
		if len(images) < 4 {
			t.Errorf("%s: the containers have the images %q", set, images)
		}
		for _, image := range images {
			if image[1] != want {
				t.Errorf("%s: a container has the image %s, want %s", set, image[1], want)
			}
		}
	}
}

// The init container reads which release has written the state of the node, and writes nothing
// there.
func TestInitContainer_NodeState_MountedReadOnly(t *testing.T) {
	daemon := rendered(t, "DaemonSet")["alioth-cnid"]
	var pod corev1.PodSpec
	spec, _, err := unstructured.NestedMap(daemon.Object, "spec", "template", "spec")
	if err = errors.Join(err, runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &pod)); err != nil {
		t.Fatal(err)
	}
	find := func(mounts []corev1.VolumeMount) corev1.VolumeMount {
		i := slices.IndexFunc(mounts, func(m corev1.VolumeMount) bool { return m.MountPath == cnid.DefaultConfig().StateDir })
		if i < 0 {
			t.Fatalf("no mount of %s among %v", cnid.DefaultConfig().StateDir, mounts)
		}
		return mounts[i]
	}
	daemons, first := find(pod.Containers[0].VolumeMounts), find(pod.InitContainers[0].VolumeMounts)
	if first.Name != daemons.Name || !first.ReadOnly || daemons.ReadOnly {
		t.Errorf("the init container has %+v, the daemon %+v", first, daemons)
	}
}

// Operator and daemon both judge who may use the definitions of a namespace.
func TestChart_GlobalNamespaces_ReachBothPrograms(t *testing.T) {
	set := []string{"--set", "multiNetwork.delegation.enabled=true", "--set", "multiNetwork.globalNamespaces={shared-nets,other-nets}"}
	objects := rendered(t, "Deployment", set...)
	objects["alioth-cnid"] = rendered(t, "DaemonSet", set...)["alioth-cnid"]
	for name, object := range objects {
		containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		if err != nil || len(containers) == 0 {
			t.Fatalf("%s: %v", name, err)
		}
		args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
		if err != nil || !slices.Contains(args, "--global-namespaces=shared-nets,other-nets") {
			t.Errorf("%s has the arguments %q, %v", name, args, err)
		}
	}
}

// The daemon sees who connects to its sockets only among the processes of the node.
func TestDaemon_DelegationValues_HostPIDAndArguments(t *testing.T) {
	for set, want := range map[string]bool{"image.tag=x": false, "multiNetwork.delegation.enabled=true": true} {
		daemon := rendered(t, "DaemonSet", "--set", set)["alioth-cnid"]
		shared, _, err := unstructured.NestedBool(daemon.Object, "spec", "template", "spec", "hostPID")
		if err != nil || !shared {
			t.Errorf("%s: hostPID is %v, %v, want true", set, shared, err)
		}
		args := map[*unstructured.Unstructured]string{daemon: "--delegation"}
		for _, operator := range rendered(t, "Deployment", "--set", set) {
			args[operator] = fmt.Sprintf("--delegation=%t", want)
		}
		for object, arg := range args {
			containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
			if err != nil || len(containers) == 0 {
				t.Fatal(err)
			}
			args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
			if has := slices.Contains(args, arg); err != nil || has != (want || object != daemon) {
				t.Errorf("%s: %s has the argument %s: %v, %v", set, object.GetName(), arg, has, err)
			}
		}
	}
}

// The kubelet's socket shows all pods of the node, so the daemon has it only to attach devices. The
// socket is made anew with each kubelet, so the folder is mounted.
func TestKubeletSocket_DeviceAttachmentOff_NotMounted(t *testing.T) {
	for set, want := range map[string]bool{"image.tag=x": false, "multiNetwork.sriov.enabled=true": true, "multiNetwork.enabled=false,multiNetwork.sriov.enabled=true": false} {
		daemon := rendered(t, "DaemonSet", "--set", set)["alioth-cnid"]
		volumes, _, err := unstructured.NestedSlice(daemon.Object, "spec", "template", "spec", "volumes")
		if err != nil {
			t.Fatal(err)
		}
		has := slices.ContainsFunc(volumes, func(volume any) bool {
			path, _, _ := unstructured.NestedString(volume.(map[string]any), "hostPath", "path")
			return path == "/var/lib/kubelet/pod-resources"
		})
		if has != want {
			t.Errorf("%s: the folder is mounted: %v, want %v", set, has, want)
		}
		if args := argumentsOf(t, daemon); slices.Contains(args, "--sriov") != want {
			t.Errorf("%s: arguments of the daemon are %v", set, args)
		}
		for _, operator := range rendered(t, "Deployment", "--set", set) {
			if args := argumentsOf(t, operator); !slices.Contains(args, fmt.Sprintf("--sriov=%t", want || strings.Contains(set, "sriov"))) {
				t.Errorf("%s: arguments of the operator are %v", set, args)
			}
		}
	}
	daemon := rendered(t, "DaemonSet", "--set", "multiNetwork.sriov.enabled=true", "--set", "multiNetwork.underlayAttachments=true", "--set", "multiNetwork.vxlanDevices={eth1,bond0.7}")["alioth-cnid"]
	for _, want := range []string{"--underlay-attachments", "--vxlan-devices=eth1,bond0.7"} {
		if args := argumentsOf(t, daemon); !slices.Contains(args, want) {
			t.Errorf("the arguments are %v, without %s", args, want)
		}
	}
}

// argumentsOf returns the arguments of the first container of a workload.
func argumentsOf(t *testing.T, object *unstructured.Unstructured) []string {
	t.Helper()
	containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) == 0 {
		t.Fatalf("containers are %v, %v", containers, err)
	}
	args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	if err != nil {
		t.Fatal(err)
	}
	return args
}

// sharedKinds is the number of kinds that DANM and Multus install, too: four in two groups,
// and NetworkAttachmentDefinition.
const sharedKinds = 9

// installed returns the files of the kinds that the chart installs by default: without the kinds of
// nmstate.io and of the node IPAM API.
func installed(t *testing.T) []string {
	t.Helper()
	files, err := fs.Glob(helm.CRDs(), "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(files, func(name string) bool {
		return strings.HasPrefix(name, "nmstate.io_") || strings.Contains(name, "acn.azure.com_")
	})
}

func TestCRDs_KeepValue_SetsResourcePolicy(t *testing.T) {
	const policy = "helm.sh/resource-policy"
	all := len(installed(t))
	for _, tt := range []struct {
		set, want string
		count     int
	}{{"crds.keep=true", "keep", all}, {"crds.keep=false", "", all}, {"crds.enabled=false", "", 0}, {"multiNetwork.enabled=false", "keep", all - sharedKinds}, {areaOn, "keep", all + 4}, {nodeIPAMOn, "keep", all + 8}, {nodeIPAMOn + ",nodeIPAM.groups={acn.azure.com}", "keep", all + 4}} {
		found := rendered(t, "CustomResourceDefinition", "--set", tt.set)
		if len(found) != tt.count {
			t.Errorf("%s: got %d CRDs, want %d", tt.set, len(found), tt.count)
		}
		for name, crd := range found {
			if got := crd.GetAnnotations()[policy]; got != tt.want {
				t.Errorf("%s: %s has %s %q, want %q", tt.set, name, policy, got, tt.want)
			}
		}
	}
}

// ports returns the loopback ports that a pod template's arguments name.
func ports(t *testing.T, object *unstructured.Unstructured) []string {
	t.Helper()
	containers, found, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
	if err != nil || !found {
		t.Fatalf("%s has no containers: %v", object.GetName(), err)
	}
	var list []string
	for _, container := range containers {
		fields, ok := container.(map[string]any)
		if !ok {
			t.Fatalf("%s has a container %v", object.GetName(), container)
		}
		args, _, err := unstructured.NestedStringSlice(fields, "args")
		if err != nil {
			t.Fatal(err)
		}
		for _, arg := range args {
			if _, port, found := strings.Cut(arg, "=127.0.0.1:"); found {
				list = append(list, port)
			}
		}
	}
	return list
}

func TestProgramPorts_OneNode_AllDistinct(t *testing.T) {
	seen := map[string]string{}
	objects := rendered(t, "Deployment", "--set", "operator.replicas=3")
	for name, set := range rendered(t, "DaemonSet") {
		objects[name] = set
	}
	if len(objects) != 4 {
		t.Fatalf("got %d workloads, want 3 operators and the daemon", len(objects))
	}
	for name, object := range objects {
		list := ports(t, object)
		if len(list) != 2 {
			t.Errorf("%s listens on %v, want a port for health and one for metrics", name, list)
		}
		for _, port := range list {
			if other := seen[port]; other != "" {
				t.Errorf("%s and %s both listen on port %s", name, other, port)
			}
			seen[port] = name
		}
	}
}

// TestOperators_DefaultValues_TwoStandForElection: one alone would leave new pods waiting while it
// is replaced.
func TestOperators_DefaultValues_TwoStandForElection(t *testing.T) {
	deployments := rendered(t, "Deployment")
	if len(deployments) != 2 {
		t.Fatalf("the chart makes %d operators by default, want 2", len(deployments))
	}
	for name, object := range deployments {
		if replicas, _, err := unstructured.NestedFieldNoCopy(object.Object, "spec", "replicas"); err != nil || fmt.Sprint(replicas) != "1" {
			t.Errorf("%s has %v replicas, which would share its ports (%v)", name, replicas, err)
		}
		args, err := json.Marshal(object.Object)
		if err != nil || !strings.Contains(string(args), `"--leader-elect"`) {
			t.Errorf("%s does not stand for election (%v)", name, err)
		}
	}
}

func TestWorkloads_PodNetworkMissing_CanRun(t *testing.T) {
	objects := rendered(t, "Deployment")
	for name, set := range rendered(t, "DaemonSet") {
		objects[name] = set
	}
	for name, object := range objects {
		for path, want := range map[string]any{
			"hostNetwork": true, "dnsPolicy": "Default",
		} {
			got, _, err := unstructured.NestedFieldNoCopy(object.Object, "spec", "template", "spec", path)
			if err != nil || got != want {
				t.Errorf("%s: %s is %v, want %v (%v)", name, path, got, want, err)
			}
		}
		tolerations, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "tolerations")
		everything := func(toleration any) bool { return fmt.Sprint(toleration) == "map[operator:Exists]" }
		if err != nil || !slices.ContainsFunc(tolerations, everything) {
			t.Errorf("%s tolerates %v, want every taint (%v)", name, tolerations, err)
		}
	}
}

func TestAdmissionPolicies_EachRendered_BoundWithFailurePolicy(t *testing.T) {
	const areas = areaOn + "," + nodeIPAMOn
	policies := rendered(t, "ValidatingAdmissionPolicy", "--set", areas)
	bindings := rendered(t, "ValidatingAdmissionPolicyBinding", "--set", areas)
	if len(policies) == 0 || len(policies) != len(bindings) {
		t.Fatalf("got %d policies and %d bindings", len(policies), len(bindings))
	}
	for name, policy := range policies {
		binding := bindings[name]
		if binding == nil {
			t.Errorf("%s has no binding", name)
			continue
		}
		failure, _, _ := unstructured.NestedString(policy.Object, "spec", "failurePolicy")
		actions, _, _ := unstructured.NestedStringSlice(binding.Object, "spec", "validationActions")
		want := map[string][]string{"Fail": {"Deny"}, "Ignore": {"Warn"}}[failure]
		if !slices.Equal(actions, want) {
			t.Errorf("%s has failurePolicy %q and actions %v", name, failure, actions)
		}
		_, hasKind, _ := unstructured.NestedMap(policy.Object, "spec", "paramKind")
		notFound, hasRef, _ := unstructured.NestedString(binding.Object, "spec", "paramRef", "parameterNotFoundAction")
		wantNotFound := "Allow"
		switch name {
		case "alioth-pod-host":
			wantNotFound = "Deny" // nothing else refuses tenants the nodes' network
		case "alioth-tenant-network":
			wantNotFound = "Deny" // without a TenantConfig nothing is offered
		}
		if hasKind != hasRef || hasRef && notFound != wantNotFound {
			t.Errorf("%s: where no parameter is found it has %q, want %q", name, notFound, wantNotFound)
		}
	}
	if left := rendered(t, "ValidatingAdmissionPolicy", "--set", "admission.enabled=false"); len(left) != 0 {
		t.Errorf("admission.enabled=false leaves %d policies", len(left))
	}
	for name, policy := range rendered(t, "ValidatingAdmissionPolicy", "--set", "multiNetwork.enabled=false") {
		text, err := json.Marshal(policy.Object)
		if err != nil || strings.Contains(string(text), "danm") {
			t.Errorf("multiNetwork.enabled=false leaves %s (%v)", name, err)
		}
	}
	if left := rendered(t, "ValidatingAdmissionPolicy", "--set", areas+",admission.warnings=false"); len(left) != len(policies)-2 {
		t.Errorf("admission.warnings=false leaves %d policies of %d", len(left), len(policies))
	}
}

func TestMetricsObjects_ValuesOn_Rendered(t *testing.T) {
	for kind, names := range map[string][]string{
		"ServiceMonitor": {"alioth"}, "ConfigMap": {"alioth-dashboard"}, "Service": {"alioth-operator-metrics", "alioth-daemon-metrics"},
	} {
		before := rendered(t, kind)
		after := rendered(t, kind, "--set", "metrics.listen=node,metrics.serviceMonitor.enabled=true,metrics.dashboard.enabled=true")
		for _, name := range names {
			if before[name] != nil || after[name] == nil {
				t.Errorf("%s %s: there by default %t, when asked for %t", kind, name, before[name] != nil, after[name] != nil)
			}
		}
	}
	dashboard := rendered(t, "ConfigMap", "--set", "metrics.dashboard.enabled=true,metrics.dashboard.namespace=monitoring")["alioth-dashboard"]
	text, _, err := unstructured.NestedString(dashboard.Object, "data", "alioth.json")
	if err != nil || !json.Valid([]byte(text)) || dashboard.GetLabels()["grafana_dashboard"] != "1" || dashboard.GetNamespace() != "monitoring" {
		t.Errorf("the dashboard is %v (%v)", dashboard, err)
	}
	if _, err := chart.New(t, root, nil).Template(t.Context(), "--set", "metrics.serviceMonitor.enabled=true"); err == nil ||
		!strings.Contains(err.Error(), "metrics.listen=node") {
		t.Errorf("a ServiceMonitor of what nobody reaches: %v", err)
	}
}

func TestMetrics_ListenOnNode_ReadersAuthorized(t *testing.T) {
	const node = "metrics.listen=node"
	objects := rendered(t, "Deployment", "--set", node)
	for name, set := range rendered(t, "DaemonSet", "--set", node) {
		objects[name] = set
	}
	for name, object := range objects {
		text, err := json.Marshal(object.Object)
		if err != nil || !strings.Contains(string(text), `--metrics-addr=[$(HOST_IP)]:`) || !strings.Contains(string(text), `"name":"metrics"`) {
			t.Errorf("%s does not serve metrics on its node's address (%v)", name, err)
		}
	}
	var subjects []any
	if binding := rendered(t, "ClusterRoleBinding", "--set", node)["alioth-metrics-auth"]; binding != nil {
		subjects, _, _ = unstructured.NestedSlice(binding.Object, "subjects")
	}
	if len(subjects) != 2 || rendered(t, "ClusterRole", "--set", node)["alioth-metrics"] == nil {
		t.Errorf("the right to ask is bound to %v", subjects)
	}
	binding := rendered(t, "ClusterRoleBinding")["alioth-metrics-auth"]
	if binding == nil {
		t.Fatal("daemons can't ask who reads their metrics")
	}
	if subjects, _, _ := unstructured.NestedSlice(binding.Object, "subjects"); len(subjects) != 1 {
		t.Errorf("on loopback the right to ask is bound to %v, want the daemons alone", subjects)
	}
}

// Pods in the default VPC reach nodes: a tenant gets into it only by the values of the cluster's
// operator, and keeps that through upgrades.
func TestDefaultVPC_AllowedTenants_FollowValues(t *testing.T) {
	helm := chart.New(t, root, nil)
	for set, want := range map[string][]string{
		"log.level=info":                  {v1alpha1.AnyUnlabelled},
		"defaultVPC.allowedTenants={*}":   {v1alpha1.AnyTenant},
		"defaultVPC.allowedTenants={a,b}": {"a", "b"},
	} {
		objects, err := helm.Template(t.Context(), "--set", set)
		if err != nil {
			t.Fatal(err)
		}
		found := slices.IndexFunc(objects, func(object *unstructured.Unstructured) bool { return object.GetKind() == "VPC" })
		if found < 0 {
			t.Fatal("the chart renders no VPC")
		}
		got, _, err := unstructured.NestedStringSlice(objects[found].Object, "spec", "allowedTenants")
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("with %s the default VPC allows %q, %v; want %q", set, got, err, want)
		}
	}
}
