// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package otherplugin_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/cni/attachment/attachmenttest"
	"github.com/alioth-net/alioth/cnid/cni/delegate/delegatetest"
	driver "github.com/alioth-net/alioth/cnid/cni/drivers/otherplugin"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

// Await and Confirm implement attachment.Decisions.
func (r *released) Await(context.Context, journal.Pod) ([]attachment.Decision, error) {
	return r.decided, nil
}

func (r *released) Confirm([]journal.Record) error { return nil }

func delegated(ifName string, conf *ifdriver.Delegate) attachment.Decision {
	return attachment.Decision{
		IfName: ifName, Attachment: ifName, Binding: journal.Binding{Outside: "NetworkAttachmentDefinition/ns/storage"},
		Interface: journal.Interface{Kind: driver.Kind}, Delegate: conf,
	}
}

// watched is a driver whose ADDs are noted, and must not be at the same time.
type watched struct {
	ifdriver.Driver
	*tries
}

type tries struct {
	mu    sync.Mutex
	names []string
	// together: two were at the same time.
	together bool
	at       atomic.Int32
}

func (w watched) Attach(ctx context.Context, spec ifdriver.Spec) (ifdriver.Link, error) {
	together := w.at.Add(1) > 1
	defer w.at.Add(-1)
	w.mu.Lock()
	w.names, w.together = append(w.names, spec.IfName), w.together || together
	w.mu.Unlock()
	return w.Driver.Attach(ctx, spec)
}

// NPWG 1.3, sections 7.2 and 7.3: delegates MUST follow each other, the first failure MUST end
// the ADD without an attempt of later ones, and the interfaces made before are undone. The
// default network MUST come first; here another driver makes it.
func TestDelegates_OneFails_LaterNotRun(t *testing.T) {
	const missing = `{"cniVersion":"1.0.0","type":"tuning","ipam":{}}` // without an interface it fails
	for name, c := range map[string]struct {
		confs []string
		made  bool
		tried []string
	}{
		"all are made":    {[]string{"bridge", "bridge"}, true, []string{"eth0", "net1", "net2"}},
		"the first fails": {[]string{missing, "bridge"}, false, []string{"eth0", "net1"}},
		"the last fails":  {[]string{"bridge", missing}, false, []string{"eth0", "net1", "net2"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, tried := newRig(t), &tries{}
			sandboxes := func() []string { return []string{r.pod.Path} }
			m, j, control := r.managerOf(t, ifdriver.Drivers{
				driver.Kind: watched{r.Driver, tried}, attachmenttest.Kind: watched{attachmenttest.Driver{Sandboxes: sandboxes}, tried},
			}, false)
			for i, text := range c.confs {
				if text == "bridge" {
					text = fmt.Sprintf(
						`{"cniVersion":"1.0.0","type":"bridge","bridge":"br%d","ipam":{"type":"host-local","dataDir":%q,"ranges":[[{"subnet":"192.0.%d.0/24"}]]}}`,
						i,
						filepath.Join(r.dir, "leases"),
						i,
					)
				}
				control.decided = append(control.decided, delegated([]string{"net1", "net2"}[i], build(t, text, nil)))
			}
			control.decided = append(control.decided, attachment.Decision{
				Attachment: "eth0", Binding: journal.Binding{Outside: "physical"},
				Interface: journal.Interface{
					Kind: attachmenttest.Kind, MAC: journal.MAC{2, 0, 0, 0, 7, 7}, Config: netif.Config{MTU: 1500},
				},
			})
			var list []attachment.Attached
			var err error
			r.node.Do(t, func() error {
				list, err = m.Establish(t.Context(), attachment.Request{
					Key: journal.Key{ContainerID: "sandbox", IfName: "eth0"}, Pod: journal.Pod{Namespace: "ns", Name: "p", UID: "uid"},
					Network: "alioth", NetnsPath: r.pod.Path,
				})
				return nil
			})
			if (err == nil) != c.made || !slices.Equal(tried.names, c.tried) || tried.together {
				t.Fatalf("made %d, error %v; tried %v, at the same time %v", len(list), err, tried.names, tried.together)
			}
			if !c.made {
				if kept := r.kept(t); len(j.Records()) > 0 || len(r.leases(t)) > 0 || len(kept) > 0 {
					t.Errorf("left are records %+v, leases %v, files %v", j.Records(), r.leases(t), kept)
				}
				return
			}
			for i, one := range list[:2] {
				if iface, ok := one.Link.Result.InPod(c.tried[i+1]); !ok || iface.MAC == "" || one.IfName != c.tried[i+1] {
					t.Errorf("interface %d is %+v", i, one)
				}
			}
		})
	}
}

// kept returns the attachments that the driver has files of.
func (r *rig) kept(t *testing.T) (found []ifdriver.Found) {
	t.Helper()
	r.node.Do(t, func() (err error) {
		found, err = r.List(t.Context())
		return err
	})
	return found
}

// writeConf writes a file into the node's folder of CNI configurations.
func (r *rig) writeConf(t *testing.T, name, text string) {
	t.Helper()
	dir := filepath.Join(r.dir, "conf")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// A network of DANM with a static type has its configuration on the node, and the
// addresses that the operator has chosen.
func TestNodeFile_OperatorAddresses_Inserted(t *testing.T) {
	r := newRig(t)
	text := `{"cniVersion":"1.0.0","name":"other","type":"bridge","bridge":"br7","ipam":{"type":"dhcp"}}`
	r.writeConf(t, "lab0.conf", text)
	spec := r.spec(&ifdriver.Delegate{File: &netif.DelegateFile{NetworkID: "lab0", Type: "BRIDGE", Plugins: []string{"bridge"}, Inject: true}})
	spec.Addrs = []netip.Prefix{netip.MustParsePrefix("192.0.2.77/24")}
	link, err := r.attach(t, spec)
	if err != nil {
		t.Fatal(err)
	}
	if addrs := link.Result.Addrs; len(addrs) != 1 || addrs[0].Addr != spec.Addrs[0] {
		t.Errorf("the interface has %v", addrs)
	}
	r.writeConf(t, "lab0.conf", "{") // the DEL goes by the built configuration
	r.node.Do(t, func() error { return r.Detach(t.Context(), spec.ContainerID, spec.IfName) })
	if _, exists := r.inside(t); exists {
		t.Error("the interface is left")
	}
	for name, file := range map[string]netif.DelegateFile{
		"a broken file":       {NetworkID: "lab0", Type: "bridge", Plugins: []string{"bridge"}},
		"no file":             {NetworkID: "lab9", Type: "bridge", Plugins: []string{"bridge"}},
		"a path":              {NetworkID: "../../lab0", Type: "bridge", Plugins: []string{"bridge"}},
		"an ungranted plugin": {NetworkID: "good", Type: "bridge", Plugins: []string{"tuning"}},
		"an ungranted IPAM":   {NetworkID: "good", Type: "bridge", Plugins: []string{"bridge"}},
		"another type":        {NetworkID: "good", Type: "macvlan", Plugins: []string{"bridge", "macvlan"}, IPAM: []string{"dhcp"}},
	} {
		r.writeConf(t, "good.conf", text)
		if _, err := r.attach(t, r.spec(&ifdriver.Delegate{File: &file})); err == nil {
			t.Errorf("%s: attached", name)
		}
	}
}

// NPWG 1.1: without spec.config the configuration MUST be the node's file with the name of the
// definition, else the request MUST fail. NPWG 1.2: the pod's requests MUST reach it.
func TestNodeFile_DefinitionName_Found(t *testing.T) {
	r := newRig(t)
	log := filepath.Join(r.dir, "log")
	r.writeConf(t, "20-lab.conflist", fmt.Sprintf(
		`{"cniVersion":"1.0.0","name":"storage","plugins":[{"type":"bridge","bridge":"br8","capabilities":{"mac":true}},{"type":"fake","log":%q}]}`, log))
	const mac = "02:00:00:00:00:77"
	granted := []string{"bridge", "fake"}
	if _, err := r.attach(t, r.spec(&ifdriver.Delegate{File: &netif.DelegateFile{
		Name: "storage", Plugins: granted, Args: []byte(`{"asked":2}`), Runtime: []byte(`{"mac":"` + mac + `"}`),
	}})); err != nil {
		t.Fatal(err)
	}
	// The second plugin gets the result of the first one.
	if got := string(delegatetest.Calls(t, log)[0].Stdin); !strings.Contains(got, `"args":{"cni":{"asked":2}}`) || !strings.Contains(got, mac) {
		t.Errorf("the plugins got %s", got)
	}
	if err := r.detach(t); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]netif.DelegateFile{
		"no configuration of that name": {Name: "none", Plugins: granted},
		"the name of the file":          {Name: "20-lab", Plugins: granted},
		"an ungranted plugin":           {Name: "storage", Plugins: []string{"bridge"}},
		"requests that are no JSON":     {Name: "storage", Plugins: granted, Args: []byte(`{`)},
	} {
		if _, err := r.attach(t, r.spec(&ifdriver.Delegate{File: &file})); err == nil {
			t.Errorf("%s: attached", name)
		}
	}
}

// A file without the capabilities is the administrator's. A pod chooses address and MAC past
// them, in CNI_ARGS, only where the operator permits that.
func TestNodeFile_PodChoice_OnlyAsPermitted(t *testing.T) {
	const ip, mac = "192.0.2.77/24", "02:00:00:00:00:77"
	for name, c := range map[string]struct {
		file    netif.DelegateFile
		ip, mac bool
	}{
		"nothing":   {netif.DelegateFile{}, false, false},
		"addresses": {netif.DelegateFile{PlainIPs: true}, true, false},
		"a MAC":     {netif.DelegateFile{PlainMAC: true}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.writeConf(t, "lab.conf", fmt.Sprintf(
				`{"cniVersion":"1.0.0","name":"storage","type":"bridge","bridge":"br9","ipam":{"type":"host-local","dataDir":%q,"ranges":[[{"subnet":"192.0.2.0/24"}]]}}`,
				r.dir,
			))
			file := c.file
			file.Name, file.Plugins, file.IPAM = "storage", []string{"bridge"}, []string{"host-local"}
			file.Runtime = fmt.Appendf(nil, `{"ips":["192.0.2.77"],"mac":%q}`, mac)
			link, err := r.attach(t, r.spec(&ifdriver.Delegate{File: &file, Args: [][2]string{{"IgnoreUnknown", "true"}}}))
			if err != nil {
				t.Fatal(err)
			}
			iface, _ := link.Result.InPod("net1")
			addrs := link.Result.Addrs
			if len(addrs) != 1 || (addrs[0].Addr.String() == ip) != c.ip || (iface.MAC == mac) != c.mac {
				t.Errorf("the interface has %v and the MAC %s", addrs, iface.MAC)
			}
			var notices []string
			for _, notice := range link.Notices {
				notices = append(notices, notice.Message)
			}
			fate := map[bool]string{true: "reaches the plugins", false: "is ignored"}
			for _, want := range []string{`"ips" ` + fate[c.ip], `"mac" ` + fate[c.mac]} {
				if !slices.ContainsFunc(notices, func(text string) bool { return strings.Contains(text, want) }) {
					t.Errorf("no event has %s: %q", want, notices)
				}
			}
		})
	}
}
