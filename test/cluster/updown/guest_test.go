// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package updown

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/cluster/node"
	"github.com/alioth-net/alioth/test/cluster/objects"
	"github.com/alioth-net/alioth/test/cluster/process"
	"github.com/alioth-net/alioth/test/cluster/underlay"
	"github.com/alioth-net/alioth/test/soak"
	"github.com/alioth-net/alioth/test/waits"
)

// guestLimit is how long a step on a virtual machine may take, which may take seconds.
const guestLimit = 10 * time.Minute

// A lab without a network for pods: features specific to the virtual machine do not depend on it,
// and the machine is slow.
func TestUpDown_VirtualMachine_NothingLeft(t *testing.T) {
	soak.Only(t)
	f := newFixture(t)
	f.options.Topology.Guests, f.options.CNI = 1, cluster.CNINone
	c, err := cluster.Up(t.Context(), f.root, f.options)
	if err != nil {
		t.Fatal(err)
	}
	guest := c.Nodes()[1]
	if !guest.Guest || c.Nodes()[0].Guest {
		t.Fatalf("nodes are %+v", c.Nodes())
	}
	t.Run("its kubelet is that of a machine of its own", func(t *testing.T) { testGuestNode(t, c, guest) })
	t.Run("commands run there", func(t *testing.T) { testGuestCommands(t, c, guest) })
	t.Run("a stopped daemon stays away until it is started", func(t *testing.T) { testGuestDaemon(t, c, guest) })
	t.Run("it is on both segments", func(t *testing.T) { testGuestSegments(t, c, guest) })
	f.traces.learn(t)
	// A machine that ends by itself does not hinder Down.
	machine := maps.Collect(c.Daemons())[guest.Name+"/machine"]
	id, err := process.Identify(machine)
	if err != nil {
		t.Fatal(err)
	}
	if err := id.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	f.down(t)
}

func testGuestNode(t *testing.T, c *cluster.Cluster, guest cluster.Node) {
	object, err := c.Client().CoreV1().Nodes().Get(t.Context(), guest.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kernel, err := c.NodeExec(t.Context(), guest.Name, "uname", "-r")
	if err != nil || object.Status.NodeInfo.KernelVersion != strings.TrimSpace(kernel) {
		t.Errorf("its kernel is %s, by a command %q, %v", object.Status.NodeInfo.KernelVersion, kernel, err)
	}
}

func testGuestCommands(t *testing.T, c *cluster.Cluster, guest cluster.Node) {
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(guestLimit))
	defer cancel()
	if out, err := c.NodeExec(ctx, guest.Name, "hostname"); err != nil || strings.TrimSpace(out) != guest.Name {
		t.Errorf("got %q, %v", out, err)
	}
	if _, err := c.NodeExec(ctx, guest.Name, "sh", "-c", "echo sorry >&2; exit 7"); err == nil || !strings.Contains(err.Error(), "sorry") ||
		!strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("a failing command: %v", err)
	}
	if id, err := c.ReadNodeFile(ctx, guest.Name, "/etc/machine-id"); err != nil || string(id) != string(node.MachineID(guest.Name)) {
		t.Errorf("its file: %q, %v", id, err)
	}
	if _, _, err := c.Command(ctx, guest.Name, "true"); err == nil || !strings.Contains(err.Error(), "virtual machine") {
		t.Errorf("a command in the namespaces that it has not: %v", err)
	}
}

func testGuestDaemon(t *testing.T, c *cluster.Cluster, guest cluster.Node) {
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(guestLimit))
	defer cancel()
	name := guest.Name + "/containerd"
	if err := c.StopProcess(ctx, name); err != nil {
		t.Fatal(err)
	}
	if conn, err := c.DialNode(ctx, guest.Name, node.Socket); err == nil {
		conn.Close()
		t.Error("containerd answers after its end")
	}
	if err := c.StartProcess(ctx, name); err != nil {
		t.Fatal(err)
	}
	err := objects.WaitFor(ctx, "containerd answers again", func(ctx context.Context) error {
		conn, err := c.DialNode(ctx, guest.Name, node.Socket)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	if err != nil {
		t.Error(err)
	}
}

// testGuestSegments looks for each node's interface from the other one: neighbours answer
// on their own segment only.
func testGuestSegments(t *testing.T, c *cluster.Cluster, guest cluster.Node) {
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(guestLimit))
	defer cancel()
	usual := c.Nodes()[0]
	if _, err := c.NodeExec(ctx, guest.Name, "ping", "-c", "1", "-W", "5", usual.IPv4.String()); err != nil {
		t.Errorf("the first segment: %v", err)
	}
	for name, address := range map[string]string{usual.Name: "10.9.9.1/24", guest.Name: "10.9.9.2/24"} {
		if _, err := c.NodeExec(ctx, name, "ip", "address", "add", address, "dev", underlay.SecondLink); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.NodeExec(ctx, guest.Name, "ping", "-c", "1", "-W", "5", "10.9.9.1"); err != nil {
		t.Errorf("the second segment: %v", err)
	}
	if driver, err := c.NodeExec(ctx, guest.Name, "readlink", "/sys/class/net/"+underlay.SecondLink+"/device/driver"); err != nil ||
		!strings.HasSuffix(strings.TrimSpace(driver), "/igb") {
		t.Errorf("the driver is %q, %v", driver, err)
	}
}
