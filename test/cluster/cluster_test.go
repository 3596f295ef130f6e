// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/cluster/addons"
	"github.com/alioth-net/alioth/test/cluster/objects"
	"github.com/alioth-net/alioth/test/cluster/process"
	"github.com/alioth-net/alioth/test/cluster/underlay"
)

func TestState_StoredAndLoaded_Equal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lab", "state.json")
	s, found, err := loadState(path)
	if err != nil || found {
		t.Fatalf("found %v, %v in an empty folder", found, err)
	}
	err = s.update(func(state *State) {
		state.Topology, state.CNI = underlay.DefaultTopology(2), CNIBridge
		state.setDaemon(Daemon{Node: "n", Spec: process.Spec{Name: "n/kubelet"}, ID: process.ID{PID: 4, Start: 5}})
		state.setLoaded("n", "image", "digest")
	})
	if err != nil {
		t.Fatal(err)
	}
	before := s.get()
	if err := s.update(func(state *State) { state.setLoaded("n", "image", "other") }); err != nil {
		t.Fatal(err)
	}
	if before.Loaded["n"]["image"] != "digest" {
		t.Error("an update changed a copy that was handed out")
	}
	again, found, err := loadState(path)
	if err != nil || !found {
		t.Fatalf("found %v, %v", found, err)
	}
	if diff := cmp.Diff(s.get(), again.get()); diff != "" {
		t.Errorf("(-memory +disk):\n%s", diff)
	}
}

func TestVersions_ExistingLab_KeptOrRefused(t *testing.T) {
	old := Versions{Kubernetes: "1.36", Kubelet: "1.34"}
	var plain Options
	if err := plain.setVersions(true, old); err != nil || plain.Versions != old {
		t.Errorf("options without versions become %+v, %v; want those of the lab", plain.Versions, err)
	}
	other := Options{Versions: Versions{Kubernetes: "1.35"}}
	if err := other.setVersions(true, old); err == nil || !strings.Contains(err.Error(), "make down") {
		t.Errorf("other versions: %v, want a refusal with the remedy", err)
	}
	if err := other.setVersions(false, Versions{}); err != nil || other.Versions.kubelet() != "1.35" {
		t.Errorf("a new lab gets %+v, %v", other.Versions, err)
	}
	guests := Options{Topology: underlay.Topology{Guests: 1}, Versions: old}
	if err := guests.setVersions(false, Versions{}); err == nil {
		t.Error("virtual machines get versions that they do not run")
	}
}

func TestOpen_NoLab_ErrNotUp(t *testing.T) {
	if _, err := Open(t.TempDir()); !errors.Is(err, ErrNotUp) {
		t.Errorf("error %v, want ErrNotUp", err)
	}
}

func TestDown_NoLab_NoError(t *testing.T) {
	if err := Down(t.Context(), t.TempDir(), "", nil); err != nil {
		t.Error(err)
	}
}

func TestUp_OtherOptions_RefusedWithRemedy(t *testing.T) {
	c, _, err := attach(t.TempDir(), t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	err = c.state.update(func(s *State) { s.Topology, s.CNI = underlay.DefaultTopology(3), CNIBridge })
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{
		"fewer nodes":   {Topology: underlay.DefaultTopology(2), CNI: CNIBridge},
		"another CNI":   {Topology: underlay.DefaultTopology(3), CNI: CNINone},
		"another range": {Topology: underlay.Topology{Lab: "alioth", Nodes: 3, Octet: 9}, CNI: CNIBridge},
	} {
		if err := c.claim(t.Context(), o, true); err == nil || !strings.Contains(err.Error(), "make down") {
			t.Errorf("%s: error %v does not say what to do", name, err)
		}
	}
}

func TestClusterDNS_Manifest_BothFamiliesAndAPIServer(t *testing.T) {
	for _, server := range []string{"", "192.168.77.1"} {
		manifest, err := addons.DNS{
			Image: "img:1", VIPs: []string{"10.96.0.10", "fd96::a"}, ServiceRanges: serviceRanges(), APIServer: server, APIServerPort: 6443,
		}.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		list, err := objects.ParseManifest(manifest)
		if err != nil {
			t.Fatal(err)
		}
		kinds := map[string]map[string]any{}
		for _, object := range list {
			kinds[object.GetKind()], _ = object.Object["spec"].(map[string]any)
		}
		if diff := cmp.Diff([]any{"10.96.0.10", "fd96::a"}, kinds["Service"]["clusterIPs"]); diff != "" {
			t.Errorf("clusterIPs (-want +got):\n%s", diff)
		}
		raw, err := json.Marshal(kinds["Deployment"])
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(raw), "KUBERNETES_SERVICE_HOST"); got != (server != "") {
			t.Errorf("API server %q: the address is given: %v", server, got)
		}
		if want := "kubernetes cluster.local 10.96.0.0/16 fd96::/112 {"; !strings.Contains(string(manifest), want) || strings.Contains(string(manifest), "arpa") {
			t.Errorf("the configuration lacks %q, or gives more addresses names:\n%s", want, manifest)
		}
	}
}

func TestContainerID_NamedOrFirst_RunningOneFound(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
		{Name: "a", ContainerID: "containerd://1", State: running},
		{Name: "b", ContainerID: "containerd://2", State: running},
		{Name: "c", ContainerID: "containerd://3"},
	}}}
	for container, want := range map[string]string{"": "1", "b": "2"} {
		if got, err := containerID(pod, container); err != nil || got != want {
			t.Errorf("container %q: %q, %v; want %q", container, got, err, want)
		}
	}
	for _, container := range []string{"c", "d"} {
		if _, err := containerID(pod, container); err == nil {
			t.Errorf("container %q was found", container)
		}
	}
}

func TestNodeExec_ForeignProcess_Refused(t *testing.T) {
	c := &Cluster{dir: t.TempDir()}
	err := c.writeScript("node-exec", nodeExec, []struct {
		Number, PID int
		Name, NetNS string
	}{{1, os.Getpid(), "alioth-node1", filepath.Join(t.TempDir(), "absent")}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(c.path("bin", "node-exec"), "1", "--", "true").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the node is not up") {
		t.Errorf("output %q, %v", out, err)
	}
	out, err = exec.Command(c.path("bin", "node-exec"), "7").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "alioth-node1") {
		t.Errorf("output %q, %v: want usage with the nodes", out, err)
	}
}

func TestKubectlScript_AliothPlugin_Found(t *testing.T) {
	c := &Cluster{dir: t.TempDir()}
	binaries := map[string]string{"kubectl": filepath.Join(t.TempDir(), "kubectl"), "aliothctl": filepath.Join(t.TempDir(), "aliothctl")}
	for name, script := range map[string]string{
		"kubectl":   "#!/bin/sh\nexec kubectl-alioth \"$@\"\n",
		"aliothctl": "#!/bin/sh\necho \"$0 $1 $KUBECONFIG\"\n",
	} {
		if err := os.WriteFile(binaries[name], []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // a lab is brought up again
		if err := c.writeClients(binaries); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(c.path("bin", "kubectl"), "drops").CombinedOutput()
	if want := c.path("bin", "kubectl-alioth") + " drops " + c.Kubeconfig() + "\n"; err != nil || string(out) != want {
		t.Errorf("output %q, %v; want %q", out, err, want)
	}
	out, err = exec.Command(c.path("bin", "aliothctl"), "drops").CombinedOutput()
	if want := binaries["aliothctl"] + " drops " + c.Kubeconfig() + "\n"; err != nil || string(out) != want {
		t.Errorf("output %q, %v; want %q", out, err, want)
	}
	if err := c.writeClients(map[string]string{"aliothctl": ""}); err != nil {
		t.Errorf("without aliothctl: %v", err)
	}
}

func TestRestartPatch_Time_InPodTemplate(t *testing.T) {
	raw, err := restartPatch(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"2030-01-02T03:04:05Z"}}}}}`
	if string(raw) != want {
		t.Errorf("patch %s, want %s", raw, want)
	}
}

func TestWithNodeIP_NewAddress_OtherFamilyKept(t *testing.T) {
	args := []string{"/bin/kubelet", "--node-ip=192.168.77.2,fd77::2", "--config=x"}
	got := withNodeIP(args, netip.MustParseAddr("192.168.77.2"), netip.MustParseAddr("192.168.77.102"))
	want := []string{"/bin/kubelet", "--node-ip=192.168.77.102,fd77::2", "--config=x"}
	if !slices.Equal(got, want) || args[1] != "--node-ip=192.168.77.2,fd77::2" {
		t.Errorf("got %v from %v, want %v", got, args, want)
	}
}
