// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deviceplugin offers the devices of a node to its kubelet as an extended resource
// (Kubernetes, "Device Plugins"), so that the scheduler places pods that request one on nodes
// that have one. The kubelet counts alone: which device a pod gets is the operator's decision.
package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/alioth-net/alioth/cnid/system/kubeletapi"
)

// DefaultDir is the kubelet's directory of plugins.
const DefaultDir = "/var/lib/kubelet/device-plugins"

const (
	// kubeletSocket is the kubelet's socket in the folder, and ownSocket the plugin's socket.
	kubeletSocket, ownSocket = "kubelet.sock", "alioth-node-ipam.sock"
	// patience bounds the registration.
	patience = 10 * time.Second
)

// Config has the settings and functions of a Plugin. All fields are required.
type Config struct {
	// Dir is the kubelet's folder of plugins.
	Dir string
	// Resource is the name that pods request.
	Resource string
	// Count returns the number of devices that pods of the node can have together, their present
	// devices included.
	Count func() (int, error)
	// Every is the time between two looks at the devices and the kubelet without a hint. A
	// kubelet that starts forgets its plugins, and makes its socket anew.
	Every time.Duration
	Log   *slog.Logger
}

// Plugin offers devices to a kubelet. Use New.
type Plugin struct {
	cfg   Config
	hints chan struct{}

	mu    sync.Mutex
	count int
	// changed is closed when count changes.
	changed chan struct{}
}

// New returns a Plugin.
func New(cfg Config) *Plugin {
	return &Plugin{cfg: cfg, hints: make(chan struct{}, 1), changed: make(chan struct{})}
}

// Look requests a count of the devices. It does not block.
func (p *Plugin) Look() {
	select {
	case p.hints <- struct{}{}:
	default:
	}
}

// Run offers the devices until ctx ends. Before the node has any, the kubelet hears nothing.
func (p *Plugin) Run(ctx context.Context) {
	logged := ""
	for ctx.Err() == nil {
		err := p.look()
		if err == nil && p.offered() > 0 {
			err = p.serve(ctx)
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != "" && text != logged && ctx.Err() == nil { // one warning for each cause
			p.cfg.Log.Warn(
				"can't offer the node's devices to the kubelet; trying again",
				"resource",
				p.cfg.Resource,
				"error",
				err,
			)
		}
		logged = text
		p.wait(ctx)
	}
}

// wait returns after a hint, after a time, or when ctx ends.
func (p *Plugin) wait(ctx context.Context) {
	timer := time.NewTimer(p.cfg.Every)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-p.hints:
	case <-timer.C:
	}
}

// look counts the devices.
func (p *Plugin) look() error {
	count, err := p.cfg.Count()
	if err != nil {
		return fmt.Errorf("count the devices: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if count != p.count {
		p.count = count
		close(p.changed)
		p.changed = make(chan struct{})
	}
	return nil
}

func (p *Plugin) offered() int {
	count, _ := p.state()
	return count
}

func (p *Plugin) state() (count int, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count, p.changed
}

// serve serves one kubelet, until a new kubelet starts or ctx ends.
func (p *Plugin) serve(ctx context.Context) error {
	socket := filepath.Join(p.cfg.Dir, ownSocket)
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) { // of an earlier daemon
		return fmt.Errorf("remove an earlier socket: %w", err)
	}
	kubelet, err := os.Stat(filepath.Join(p.cfg.Dir, kubeletSocket))
	if err != nil {
		return fmt.Errorf("find the kubelet (is its folder of device plugins another one?): %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("listen for the kubelet: %w", err)
	}
	server := p.server()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	defer server.Close() // which removes the socket
	if err := p.register(ctx); err != nil {
		return err
	}
	p.cfg.Log.Info("the kubelet knows the node's devices", "resource", p.cfg.Resource, "count", p.offered())
	for ctx.Err() == nil {
		p.wait(ctx)
		select {
		case err := <-ended:
			return fmt.Errorf("serve the kubelet: %w", err)
		default:
		}
		now, err := os.Stat(filepath.Join(p.cfg.Dir, kubeletSocket))
		if _, gone := os.Stat(socket); gone != nil || err != nil || !os.SameFile(kubelet, now) {
			return nil // the kubelet starts again
		}
		if err := p.look(); err != nil {
			return err
		}
	}
	return nil
}

// register tells the kubelet where the plugin serves.
func (p *Plugin) register(ctx context.Context) error {
	client := kubeletapi.NewClient(filepath.Join(p.cfg.Dir, kubeletSocket))
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := client.Call(ctx, version+".Registration/Register", registration(ownSocket, p.cfg.Resource)); err != nil {
		return fmt.Errorf("register %s with the kubelet: %w", p.cfg.Resource, err)
	}
	return nil
}

func (p *Plugin) server() *http.Server {
	const service = "/" + version + ".DevicePlugin/"
	return kubeletapi.Server(map[string]kubeletapi.Method{
		service + "GetDevicePluginOptions": func(_ context.Context, _ []byte, send func([]byte) error) error { return send(nil) },
		service + "ListAndWatch":           p.list,
		service + "Allocate": func(_ context.Context, request []byte, send func([]byte) error) error {
			message, err := allocated(request)
			if err != nil {
				return err
			}
			return send(message)
		},
	})
}

// list sends the devices at once, and again after each change.
func (p *Plugin) list(ctx context.Context, _ []byte, send func([]byte) error) error {
	for {
		count, changed := p.state()
		if err := send(listed(count)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}
