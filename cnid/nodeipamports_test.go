// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiclient "sigs.k8s.io/controller-runtime/pkg/client"

	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/nodeipam/client"
	"github.com/alioth-net/alioth/cnid/nodeipam/queue"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wayin"
)

// portAPI is the TCP address of the node IPAM API in tests.
var portAPI = netip.MustParseAddrPort("127.0.0.1:10090")

// podCgroup makes the cgroup of pods of a machine with one pod in it, and has the machine
// serve the node IPAM API at TCP too.
func (m *machine) podCgroup(t *testing.T) (pod string) {
	t.Helper()
	pods := filepath.Join(m.cgroup, "kubepods.slice")
	pod = filepath.Join(pods, "pod1")
	for _, dir := range []string{pods, pod} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
				t.Errorf("remove cgroup: %v", err)
			}
		})
	}
	m.cfg.NodeIPAM.Enabled, m.cfg.NodeIPAM.Listen = true, "localhost:10090"
	return pod
}

// connect makes a process in a cgroup connect to the API from the machine.
func (m *machine) connect(t *testing.T, cgroup string) (err error) {
	t.Helper()
	testnet.In(t, m, func() error {
		err = wayin.Connect.Try(t, cgroup, portAPI)
		return nil
	})
	return err
}

// asks sends a request to the API from the machine, as the runtime does for a forwarded port,
// and returns the status of the answer.
func (m *machine) asks(t *testing.T, authorization string) (status int) {
	t.Helper()
	testnet.In(t, m, func() error {
		conn, err := net.Dial("tcp", portAPI.String())
		if err != nil {
			return err
		}
		client := http.Client{Transport: &http.Transport{
			DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		}}
		defer client.CloseIdleConnections()
		request, err := http.NewRequestWithContext(
			t.Context(),
			http.MethodPost,
			"http://localhost:10090"+wire.ReleaseIPConfigsPath,
			strings.NewReader(`{"infraContainerID":"none"}`),
		)
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", authorization)
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		status = answer.StatusCode
		return answer.Body.Close()
	})
	return status
}

func TestNodeIPAM_TCP_OnlyNodeProcessesServed(t *testing.T) {
	n := newAPINode(t, "ipam-port")
	pod := n.podCgroup(t)
	n.start(t)
	served := func() {
		t.Helper()
		eventually(t, "the API is served by TCP", func() error { return n.connect(t, n.cgroup) })
	}
	refused := func(when string) {
		t.Helper()
		if err := n.connect(t, pod); !errors.Is(err, unix.EPERM) {
			t.Errorf("%s: a process of a pod got %v, want EPERM", when, err)
		}
	}
	served()
	metrics := n.machine.get(t, "/metrics")
	for _, name := range []string{"alioth_cnid_node_ipam_requests_running", "alioth_cnid_node_ipam_queued_releases_total"} {
		if !strings.Contains(metrics, name) {
			t.Errorf("the daemon does not have the metric %s", name)
		}
	}
	refused("while the daemon runs")
	token, err := os.ReadFile(n.cfg.tokenFile())
	if err != nil {
		t.Fatal(err)
	}
	for header, want := range map[string]int{"": http.StatusUnauthorized, "Bearer " + string(token): http.StatusOK} {
		if status := n.asks(t, header); status != want {
			t.Errorf("a request with %d characters of authorization is answered with %d, want %d", len(header), status, want)
		}
	}
	n.stop(unix.SIGKILL)
	refused("while there is no daemon")
	n.start(t)
	served()
	refused("with the next daemon")
	n.stop(unix.SIGTERM)
	n.uninstall(t)
	if err := n.connect(t, pod); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("after an uninstall a process of a pod got %v, want ECONNREFUSED", err)
	}
}

func TestNodeIPAM_NoPodCgroup_SocketOnly(t *testing.T) {
	n := newAPINode(t, "ipam-groups")
	n.cfg.NodeIPAM.Enabled, n.cfg.NodeIPAM.Listen = true, "localhost:10090"
	n.start(t)
	if message := n.health(t, v1alpha1.NodeIPAMPortUnservedReason); !strings.Contains(message, "--node-ipam-pod-cgroup") {
		t.Errorf("the condition says %q, want the setting", message)
	}
	if err := n.connect(t, n.cgroup); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("a process of the node got %v, want no listener", err)
	}
	if _, err := os.Stat(n.cfg.nodeIPAMSocket()); err != nil {
		t.Error(err)
	}
}

func TestNodeIPAM_Request_PodAddressAndNodeNetwork(t *testing.T) {
	n := newAPINode(t, "ipam-host")
	n.vpcOf(t, "infra", 77, "10.10.0.0/16")
	n.infraPods(t, 1)
	n.cfg.NodeIPAM.Enabled = true
	n.start(t)
	entries, err := client.Client{Socket: n.cfg.nodeIPAMSocket()}.Request(t.Context(), requestOf(1))
	if err != nil || len(entries) != 1 {
		t.Fatalf("got %+v, %v", entries, err)
	}
	if got, want := entries[0].PodIPConfig, (wire.IPSubnet{IPAddress: "10.10.1.1", PrefixLength: 16}); got != want {
		t.Errorf("the pod's address is %+v, want %+v", got, want)
	}
	if got, want := entries[0].HostPrimaryIPInfo, (wire.HostIPInfo{PrimaryIP: "192.0.2.1", Subnet: "192.0.2.0/24"}); got != want {
		t.Errorf("the node's network is %+v, want %+v", got, want)
	}
}

func TestNodeIPAM_TurnedOff_AddressesGoWithPods(t *testing.T) {
	n := newAPINode(t, "ipam-off")
	n.vpcOf(t, "infra", 77, "10.10.0.0/16")
	n.infraPods(t, 1)
	n.cfg.NodeIPAM.Enabled = true
	n.start(t)
	if _, err := (client.Client{Socket: n.cfg.nodeIPAMSocket()}).Request(t.Context(), requestOf(1)); err != nil {
		t.Fatal(err)
	}
	n.stop(unix.SIGTERM)
	n.cfg.NodeIPAM.Enabled = false
	n.start(t)
	p := &labPod{name: infraName(1), vpc: "infra", addrs: []netip.Prefix{netip.MustParsePrefix("10.10.1.1/16")}}
	n.deletePod(t, p)
	// Its plugin finds no API, and leaves the release.
	if err := queue.Put(n.cfg.queuedReleases(), queue.Release{ContainerID: infraName(1), IfName: "eth0"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Address is deleted", func() error { return n.addressGone(p) })
}

// TestNodeIPAM_CNSPluginLeftDEL_DoneLater: the file of such a plugin has the name of the
// container and the podInterfaceID in it.
func TestNodeIPAM_CNSPluginLeftDEL_DoneLater(t *testing.T) {
	n := newAPINode(t, "ipam-deletes")
	n.vpcOf(t, "infra", 77, "10.10.0.0/16")
	n.infraPods(t, 1)
	n.cfg.NodeIPAM.Enabled, n.cfg.NodeIPAM.Deletes = true, filepath.Join(t.TempDir(), "azure-vnet", "deleteIDs")
	n.start(t)
	asked := requestOf(1)
	if _, err := (client.Client{Socket: n.cfg.nodeIPAMSocket()}).Request(t.Context(), asked); err != nil {
		t.Fatal(err)
	}
	n.stop(unix.SIGKILL)
	file := filepath.Join(n.cfg.NodeIPAM.Deletes, asked.InfraContainerID)
	if err := os.WriteFile(file, []byte(asked.PodInterfaceID), 0o600); err != nil { // the daemon has made the directory
		t.Fatal(err)
	}
	p := &labPod{name: infraName(1), vpc: "infra", addrs: []netip.Prefix{netip.MustParsePrefix("10.10.1.1/16")}}
	n.deletePod(t, p)
	n.start(t)
	eventually(t, "the Address is deleted, and the file", func() error {
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(errors.New("the file is there"), err)
		}
		return n.addressGone(p)
	})
}

// TestNodeIPAM_DELMissingContainerGone_AddressReleased: its client named no namespace.
func TestNodeIPAM_DELMissingContainerGone_AddressReleased(t *testing.T) {
	n := newAPINode(t, "ipam-abandoned")
	pod := n.podCgroup(t)
	container := filepath.Join(pod, "cri-containerd-"+requestOf(1).InfraContainerID+".scope")
	if err := os.Mkdir(container, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(container) }) // unless it is gone
	n.vpcOf(t, "infra", 77, "10.10.0.0/16")
	n.infraPods(t, 1)
	n.cfg.NodeIPAM.Listen, n.cfg.ReconcileEvery = "", 100*time.Millisecond
	n.start(t)
	if _, err := (client.Client{Socket: n.cfg.nodeIPAMSocket()}).Request(t.Context(), requestOf(1)); err != nil {
		t.Fatal(err)
	}
	p := &labPod{name: infraName(1), vpc: "infra", addrs: []netip.Prefix{netip.MustParsePrefix("10.10.1.1/16")}}
	n.deletePod(t, p)
	if err := n.addressGone(p); err == nil {
		t.Error("the Address is deleted although the container runs")
	}
	if err := os.Remove(container); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Address is deleted", func() error { return n.addressGone(p) })
}

// TestNodeIPAM_LabeledNode_OtherCNIConfigurationAccepted: such a node has its pods from another
// plugin, so the remedy to remove its configuration would be wrong.
func TestNodeIPAM_LabeledNode_OtherCNIConfigurationAccepted(t *testing.T) {
	n := newAPINode(t, "ipam-othercni")
	n.cfg.NodeIPAM.Enabled, n.cfg.RecheckEvery = true, 100*time.Millisecond
	n.start(t)
	if err := os.MkdirAll(n.cfg.CNIConfDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(n.cfg.CNIConfDir, "00-infra.conflist"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.health(t, v1alpha1.OtherCNIConfigurationReason)
	label := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"true"}}}`, multitenancyv1alpha1.NodeLabel)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}}
	if err := n.api.Patch(t.Context(), node, apiclient.RawPatch(types.MergePatchType, label)); err != nil {
		t.Fatal(err)
	}
	n.health(t, v1alpha1.NetworkHealthyReason)
}
