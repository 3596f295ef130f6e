// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package delegate_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/cnid/attach"
	driver "github.com/alioth-net/alioth/cnid/attach/delegate"
	"github.com/alioth-net/alioth/cnid/attachment"
	"github.com/alioth-net/alioth/cnid/journal"
)

// Await and Confirm implement attachment.Decisions.
func (r *released) Await(context.Context, journal.Pod) ([]attachment.Decision, error) {
	return r.decided, nil
}

func (r *released) Confirm([]journal.Record) error { return nil }

func delegated(ifName string, conf *attach.Delegate) attachment.Decision {
	return attachment.Decision{
		IfName: ifName, Attachment: ifName, Binding: journal.Binding{Outside: "NetworkAttachmentDefinition/ns/storage"},
		Interface: journal.Interface{Kind: driver.Kind}, Delegate: conf,
	}
}

// NPWG 1.3, sections 7.2 and 7.3: delegates follow each other, the first failure ends the
// ADD, and what was made is undone.
func TestDelegatesFollowEachOtherUntilOneFails(t *testing.T) {
	const missing = `{"cniVersion":"1.0.0","type":"tuning","ipam":{}}` // without an interface it fails
	for name, c := range map[string]struct {
		confs []string
		made  []string
	}{
		"all are made":    {[]string{"bridge", "bridge"}, []string{"eth0", "net1"}},
		"the first fails": {[]string{missing, "bridge"}, nil},
		"the last fails":  {[]string{"bridge", missing}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			m, j, control := r.manager(t, false)
			for i, text := range c.confs {
				if text == "bridge" {
					text = fmt.Sprintf(`{"cniVersion":"1.0.0","type":"bridge","bridge":"br%d","ipam":{"type":"host-local","dataDir":%q,"ranges":[[{"subnet":"192.0.%d.0/24"}]]}}`,
						i, filepath.Join(r.dir, "leases"), i)
				}
				control.decided = append(control.decided, delegated([]string{"", "net1"}[i], build(t, text, nil)))
			}
			var list []attachment.Attached
			var err error
			r.node.Do(t, func() error {
				list, err = m.Establish(t.Context(), attachment.Request{
					Key: journal.Key{ContainerID: "sandbox", IfName: "eth0"}, Pod: journal.Pod{Namespace: "ns", Name: "p", UID: "uid"},
					Network: "alioth", NetnsPath: r.pod.Path,
				})
				return nil
			})
			if (err == nil) != (c.made != nil) {
				t.Fatalf("made %d, error %v", len(list), err)
			}
			if c.made == nil {
				if kept := r.kept(t); len(j.Records()) > 0 || len(r.leases(t)) > 0 || len(kept) > 0 {
					t.Errorf("left are records %+v, leases %v, files %v", j.Records(), r.leases(t), kept)
				}
				return
			}
			for i, one := range list {
				if iface, ok := one.Link.Result.InPod(c.made[i]); !ok || iface.MAC == "" || one.IfName != c.made[i] {
					t.Errorf("interface %d is %+v", i, one)
				}
			}
		})
	}
}

// kept are the attachments that the driver has files of.
func (r *rig) kept(t *testing.T) (found []attach.Found) {
	t.Helper()
	r.node.Do(t, func() (err error) {
		found, err = r.List(t.Context())
		return err
	})
	return found
}

// A network of DANM with a static type has its configuration on the node, and the
// addresses that the operator has chosen.
func TestAFileOfTheNodeIsBuiltWithTheOperatorsAddresses(t *testing.T) {
	r := newRig(t)
	dir := filepath.Join(r.dir, "conf")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	text := `{"cniVersion":"1.0.0","name":"other","type":"Bridge","bridge":"br7","ipam":{"type":"dhcp"}}`
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "lab0.conf"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(strings.Replace(text, "Bridge", "bridge", 1))
	spec := r.spec(&attach.Delegate{File: &attach.DelegateFile{NetworkID: "lab0", Type: "BRIDGE", Plugins: []string{"bridge"}, Inject: true}})
	spec.Addrs = []netip.Prefix{netip.MustParsePrefix("192.0.2.77/24")}
	link, err := r.attach(t, spec)
	if err != nil {
		t.Fatal(err)
	}
	if addrs := link.Result.Addrs; len(addrs) != 1 || addrs[0].Addr != spec.Addrs[0] {
		t.Errorf("the interface has %v", addrs)
	}
	write("{") // the DEL goes by what was built
	r.node.Do(t, func() error { return r.Detach(t.Context(), spec.ContainerID, spec.IfName) })
	if _, exists := r.inside(t); exists {
		t.Error("the interface is left")
	}
	for name, file := range map[string]attach.DelegateFile{
		"a broken file":       {NetworkID: "lab0", Type: "bridge", Plugins: []string{"bridge"}},
		"no file":             {NetworkID: "lab9", Type: "bridge", Plugins: []string{"bridge"}},
		"a path":              {NetworkID: "../lab0", Type: "bridge", Plugins: []string{"bridge"}},
		"an ungranted plugin": {NetworkID: "good", Type: "bridge", Plugins: []string{"tuning"}},
		"an ungranted IPAM":   {NetworkID: "good", Type: "bridge", Plugins: []string{"bridge"}},
		"another type":        {NetworkID: "good", Type: "macvlan", Plugins: []string{"bridge", "macvlan"}, IPAM: []string{"dhcp"}},
	} {
		if err := os.WriteFile(filepath.Join(dir, "good.conf"), []byte(strings.Replace(text, "Bridge", "bridge", 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := r.attach(t, r.spec(&attach.Delegate{File: &file})); err == nil {
			t.Errorf("%s: attached", name)
		}
	}
}
