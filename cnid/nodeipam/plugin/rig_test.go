// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/types/create"

	"github.com/alioth-net/alioth/api/ipamconf"
	"github.com/alioth-net/alioth/cnid/nodeipam/answer"
	"github.com/alioth-net/alioth/cnid/nodeipam/plugin/ipam"
	"github.com/alioth-net/alioth/cnid/nodeipam/rest"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
)

// binaries is the directory of the plugin; TestMain makes it.
var binaries string

// build fills it when it is first needed.
var build = sync.OnceValue(func() error {
	out, err := exec.Command("go", "build", "-o", filepath.Join(binaries, ipamconf.Type), "github.com/alioth-net/alioth/cmd/alioth").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build the plugin: %w\n%s", err, out)
	}
	return nil
})

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == ipamconf.Type {
		// Nobody starts the tests under this name. But so they are linked with the plugin,
		// and Go does not take them for unchanged when only the plugin changes.
		ipam.Main()
		return
	}
	var err error
	if binaries, err = os.MkdirTemp("", "alioth-ipam"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(binaries)
	os.Exit(code)
}

// rig is a node with the plugin, and maybe a service at its socket.
type rig struct {
	t *testing.T
	// dir has the socket, and the queue of releases.
	dir, queue string
	server     *rest.Server
	// node is the network namespace of the plugin, nil for the namespace of the test.
	node *netnstest.Namespace
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "alioth-ipam") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return &rig{t: t, dir: dir, queue: filepath.Join(dir, "queue")}
}

// devices returns the folder of notes about delegated devices.
func (r *rig) devices() string { return filepath.Join(r.dir, "devices") }

func (r *rig) socket() string { return filepath.Join(r.dir, "s") }

// serve answers at the socket until the returned function is called.
func (r *rig) serve(service rest.Service) (stop func()) {
	r.t.Helper()
	infra := answer.Node{Infra: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}}
	r.server = rest.New(rest.Config{Service: service, Node: func() answer.Node { return infra }, Log: slog.New(slog.DiscardHandler)})
	listener, err := net.Listen("unix", r.socket())
	if err != nil {
		r.t.Fatal(err)
	}
	server := &http.Server{Handler: r.server.Handler(rest.Place{Socket: true, Patience: time.Minute}), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	stop = func() { _ = server.Close() }
	r.t.Cleanup(stop)
	return stop
}

// command is one call of the plugin.
type command struct {
	verb, container, ifName, version string
	// args replaces CNI_ARGS if it is not "".
	args  string
	extra map[string]any
	// netns is CNI_NETNS, "" for one that is not there.
	netns string
}

const podArgs = "IgnoreUnknown=1;K8S_POD_NAMESPACE=blue;K8S_POD_NAME=web-0;K8S_POD_INFRA_CONTAINER_ID=c;K8S_POD_UID=u-1"

// run executes the plugin, and returns its output; an error of the plugin as a *types.Error.
func (r *rig) run(c command) (string, error) {
	r.t.Helper()
	if err := build(); err != nil {
		r.t.Fatal(err)
	}
	conf := map[string]any{
		"cniVersion": c.version, "name": "lab", "type": "bridge",
		"ipam": map[string]any{"type": ipamconf.Type, "socket": r.socket(), "queue": r.queue, "devices": r.devices()},
	}
	for key, value := range c.extra {
		conf[key] = value
	}
	text, err := json.Marshal(conf)
	if err != nil {
		r.t.Fatal(err)
	}
	if c.args == "" {
		c.args = podArgs
	}
	cmd := exec.Command(filepath.Join(binaries, ipamconf.Type))
	cmd.Stdin = strings.NewReader(string(text))
	cmd.Env = []string{
		"CNI_COMMAND=" + c.verb, "CNI_CONTAINERID=" + c.container, "CNI_NETNS=" + cmp.Or(c.netns, "/run/netns/none"), "CNI_IFNAME=" + c.ifName,
		"CNI_PATH=/none", "CNI_ARGS=" + c.args,
	}
	out, err := r.output(cmd)
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return string(out), err
	}
	var coded types.Error
	if err := json.Unmarshal(out, &coded); err != nil || coded.Code == 0 {
		r.t.Fatalf("%s failed without an error: %v, %s, %s", c.verb, err, out, exit.Stderr)
	}
	return string(out), &coded
}

// output runs a program on the node.
func (r *rig) output(cmd *exec.Cmd) (out []byte, err error) {
	r.t.Helper()
	if r.node == nil {
		return cmd.Output()
	}
	r.node.Do(r.t, func() error { // a process starts in the namespace of the thread
		out, err = cmd.Output()
		return nil
	})
	return out, err
}

// code returns the CNI code of an error, 0 for none.
func code(err error) uint {
	var coded *types.Error
	if errors.As(err, &coded) {
		return coded.Code
	}
	return 0
}

// add runs an ADD that succeeds.
func (r *rig) add(c command) (string, *types100.Result) {
	r.t.Helper()
	c.verb = "ADD"
	out, err := r.run(c)
	if err != nil {
		r.t.Fatalf("ADD: %v", err)
	}
	raw, err := create.CreateFromBytes([]byte(out))
	if err != nil {
		r.t.Fatal(err)
	}
	res, err := types100.NewResultFromResult(raw)
	if err != nil || raw.Version() != c.version {
		r.t.Fatalf("%v, version %s: %s", err, raw.Version(), out)
	}
	return out, res
}
