// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	nodeipam "github.com/alioth-net/alioth/cnid/nodeipam/client"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/test/bench/figures"
)

const (
	// endpointsHeld is the number of endpoints of the bars, and endpointRounds the number of
	// rounds with so many requests one at a time.
	endpointsHeld, endpointRounds, singleRequests = 5000, 5, 500
	// restFor is the time without a change after which a daemon is at rest.
	restFor = 5 * time.Second
	// askingTogether is the number of clients at a time.
	askingTogether = 20
)

func infraName(number int) string { return fmt.Sprintf("infra-%d", number) }

// infraPod makes a pod of another CNI plugin with its address and everything that the
// operator writes.
func (n *apiNode) infraPod(ctx context.Context, number int) error {
	name, ip := infraName(number), netip.AddrFrom4([4]byte{10, 10, 1 + byte(number>>8), byte(number)})
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{NodeName: n.name, Containers: []corev1.Container{{Name: "c", Image: "image"}}},
	}
	if err := n.api.Create(ctx, pod); err != nil {
		return err
	}
	row := addressRow("infra", "", ip.String(), "", store.Holder{}, ip.String())
	err := n.api.Create(ctx, &v1alpha1.Address{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AddressName("infra", ip)},
		Spec: v1alpha1.AddressSpec{
			VPC: "infra", Subnet: "infra-net1", IP: ip.String(), MAC: row.MAC, Node: n.name, Driver: v1alpha1.DriverExternal,
			Holder:     v1alpha1.AddressHolder{Kind: v1alpha1.HolderPod, Namespace: "default", Name: name, UID: string(pod.UID)},
			Attachment: v1alpha1.PodAttachment, Set: []string{ip.String()},
		},
	})
	if err != nil {
		return err
	}
	text, err := annotations.FormatAttachments([]netif.Interface{{
		Name: "eth0", Kind: netif.KindExternal, VPC: "infra", Subnet: "infra-net1", Addresses: []netip.Prefix{netip.PrefixFrom(ip, 16)}, MAC: row.MAC,
	}})
	if err != nil {
		return err
	}
	before := pod.DeepCopy()
	annotate(pod, map[string]string{v1alpha1.AttachmentsAnnotation: text, arktosv1.ReadinessAnnotation: "true"})
	return n.api.Status().Patch(ctx, pod, client.MergeFrom(before))
}

// infraPods makes pods 1 to count, and deletes all with the test.
func (n *apiNode) infraPods(t *testing.T, count int) {
	t.Helper()
	t.Cleanup(func() {
		for _, kind := range []client.Object{&corev1.Pod{}, &v1alpha1.Address{}} {
			if err := n.api.DeleteAllOf(context.Background(), kind, client.InNamespace("default"), client.GracePeriodSeconds(0)); err != nil {
				t.Error(err)
			}
		}
	})
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(askingTogether)
	for i := range count {
		group.Go(func() error { return n.infraPod(ctx, i+1) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// endpointClients ask the API of a node for its pods.
type endpointClients struct {
	nodeipam.Client
	asked atomic.Int32
}

// ask requests the addresses of pods that have none yet, so many at a time.
func (c *endpointClients) ask(t *testing.T, count, together int) (took figures.Series) {
	t.Helper()
	took = make(figures.Series, count)
	c.each(t, count, together, func(ctx context.Context, i int) error {
		begun := time.Now()
		request := requestOf(int(c.asked.Add(1)))
		entries, err := c.Request(ctx, request)
		took[i] = figures.Milliseconds(time.Since(begun))
		if err == nil && len(entries) != 1 {
			err = fmt.Errorf("%s got %+v", request.InfraContainerID, entries)
		}
		return err
	})
	return took
}

// release releases all that was asked for.
func (c *endpointClients) release(t *testing.T) {
	t.Helper()
	c.each(t, int(c.asked.Load()), askingTogether, func(ctx context.Context, i int) error { return c.Release(ctx, requestOf(i+1)) })
}

func (c *endpointClients) each(t *testing.T, count, together int, do func(ctx context.Context, i int) error) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(together)
	for i := range count {
		group.Go(func() error { return do(ctx, i) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// requestOf returns the request of a pod.
func requestOf(number int) wire.IPConfigsRequest {
	name := infraName(number)
	who, _ := json.Marshal(map[string]string{"PodName": name, "PodNamespace": "default"}) // strings alone
	return wire.IPConfigsRequest{InfraContainerID: name, PodInterfaceID: name + "-eth0", Ifname: "eth0", OrchestratorContext: who}
}

var residentLine = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

// resident returns the resident memory of the daemon's process, in MiB.
func (n *apiNode) resident(t *testing.T) float64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.daemon.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	match := residentLine.FindSubmatch(status)
	if match == nil {
		t.Fatalf("no VmRSS in %s", status)
	}
	kilobytes, err := strconv.ParseFloat(string(match[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes / 1024
}

// TestFigures_NodeIPAMRequests_DurationMeasured measures, for `make bench` alone, a whole daemon on a real
// API server: requests of ready pods 20 at a time and one at a time, and the memory of 5,000
// endpoints above the memory of a daemon without the API.
func TestFigures_NodeIPAMRequests_DurationMeasured(t *testing.T) {
	figures.Wanted(t)
	n := newAPINode(t, "ipam-figures")
	n.cfg.RunDir = inMemory(t)
	n.vpcOf(t, "infra", 77, "10.10.0.0/16")
	n.infraPods(t, endpointsHeld+singleRequests)
	for range endpointRounds {
		n.cfg.NodeIPAM.Enabled = false
		n.start(t)
		without := n.atRest(t)
		n.stop(unix.SIGTERM)
		n.cfg.NodeIPAM.Enabled = true
		n.start(t)
		n.atRest(t)
		clients := &endpointClients{Client: nodeipam.Client{Socket: filepath.Join(n.cfg.RunDir, filepath.Base(nodeipam.DefaultSocket))}}
		begun := time.Now()
		clients.ask(t, endpointsHeld, askingTogether)
		rate := endpointsHeld / time.Since(begun).Seconds()
		one := clients.ask(t, singleRequests, 1)
		memory := n.atRest(t) - without
		clients.release(t)
		n.stop(unix.SIGTERM)
		printFigures(t, map[string]figures.Series{
			"requests per second, 20 at a time": {rate}, "memory of 5,000 endpoints": {memory}, "a request beside 5,000 endpoints": one,
		})
	}
}

// atRest returns the resident memory of the daemon's process, in MiB, after the return of
// temporary memory to the kernel: the least value that no lesser one followed for restFor.
func (n *apiNode) atRest(t *testing.T) float64 {
	t.Helper()
	least, since := n.resident(t), time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for time.Since(since) < restFor {
		<-tick.C
		if now := n.resident(t); now < least {
			least, since = now, time.Now()
		}
	}
	return least
}

// inMemory makes a folder on a file system in memory, as /run of a node is one.
func inMemory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "alioth-run")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func printFigures(t *testing.T, measured map[string]figures.Series) {
	t.Helper()
	for what, values := range measured {
		if err := (figures.Line{What: what, Path: figures.Alioth, Values: values}).Print(os.Stdout); err != nil {
			t.Fatal(err)
		}
	}
}
