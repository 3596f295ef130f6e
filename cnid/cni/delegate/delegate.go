// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package delegate runs other CNI plugins: ADD, CHECK and DEL of an attachment, with the
// commands, environment and order of the CNI specification 1.1.
//
// The configuration and the arguments of an attachment are on disk before its first plugin
// runs, its result before Add returns. So each later command repeats them exactly, whatever
// has happened to their sources, to the daemon or to the node. The file is removed after a
// successful DEL. Package libcni is not used for this: its cache is written after the ADD
// and not durably, and it reads numbers as float64, which changes large ones.
//
// Plugins run in the mount namespace of the node. Their environment has the variables of
// CNI and PATH alone. A plugin that exceeds its time limit is killed with its process
// group.
package delegate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/containernetworking/cni/pkg/utils"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/cnid/cni/delegate/host"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns"
)

// Defaults of a Config.
const (
	DefaultWait     = 10 * time.Second
	DefaultUndoWait = 10 * time.Second
	// DefaultEnvPath is PATH of the plugins, as of a system service.
	DefaultEnvPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Config has the settings of Delegates.
type Config struct {
	// Dir has a file for each attachment. It is created if it is missing.
	Dir string
	// Plugins are the directories of CNI plugins as the node's processes see them, and
	// CNI_PATH of the plugins.
	Plugins []string
	// EnvPath is PATH of the plugins; DefaultEnvPath when "".
	EnvPath string
	// Root is the node's root directory, Enter the command that starts the program in its
	// last argument in the node's mount namespace. "/" and nothing for the daemon's own.
	Root  host.Root
	Enter []string
	// Wait limits an ADD and a CHECK; DefaultWait when 0. UndoWait limits a DEL, which also
	// follows a failed or canceled ADD; DefaultUndoWait when 0. Both begin when the
	// interface has a slot, and end with the caller's context.
	Wait, UndoWait time.Duration
	// Slots limits how many plugins run at the same time; DefaultSlots when zero.
	Slots Slots
	Log   *slog.Logger
}

// slotWait limits how long an interface waits for a slot. Each command of others ends within
// its own limit.
const slotWait = 30 * time.Second

// Delegates runs plugins. Its methods may be called concurrently for different
// attachments.
type Delegates struct {
	cfg    Config
	queue  *queue
	bootID string
	// failing has the files of attachments whose last DEL has failed.
	failing sync.Map
}

// Attachment is one interface of a pod that plugins make.
type Attachment struct {
	// ContainerID and IfName identify it.
	ContainerID string `json:"containerID"`
	IfName      string `json:"ifName"`
	// Request, PodUID, Network and Description have the meaning of ifdriver.Spec.
	Request     string `json:"request,omitempty"`
	PodUID      string `json:"podUID"`
	Network     string `json:"network"`
	Description string `json:"description"`
	// NetnsPath is a file that refers to the pod's network namespace.
	NetnsPath string `json:"netnsPath"`
	// Conf is a list of configurations, complete (pluginconf.Build).
	Conf []byte `json:"conf"`
	// Args are the keys and values of CNI_ARGS.
	Args [][2]string `json:"args,omitempty"`
	// Rules have the meaning of ifdriver.Spec, for the caller: no plugin gets them.
	Rules []netif.Rule `json:"rules,omitempty"`
}

// Kept is an attachment on disk.
type Kept struct {
	Attachment
	// Netns identifies the network namespace in the boot of the node with the ID BootID.
	Netns  netns.ID `json:"netns"`
	BootID string   `json:"bootID"`
	// Begun is the time of the call of Add.
	Begun time.Time `json:"begun"`
	// RawResult is the result of the last plugin, in the version of the configuration. It
	// is empty until the ADD has succeeded.
	RawResult json.RawMessage `json:"result,omitempty"`
}

// New returns Delegates with the attachments that are in the directory.
func New(cfg Config) (*Delegates, error) {
	if cfg.Wait == 0 {
		cfg.Wait = DefaultWait
	}
	if cfg.UndoWait == 0 {
		cfg.UndoWait = DefaultUndoWait
	}
	if cfg.Slots == (Slots{}) {
		cfg.Slots = DefaultSlots
	}
	if cfg.EnvPath == "" {
		cfg.EnvPath = DefaultEnvPath
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make directory of delegated attachments: %w", err)
	}
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("read the ID of this boot: %w", err)
	}
	return &Delegates{cfg: cfg, queue: newQueue(cfg.Slots), bootID: strings.TrimSpace(string(id))}, nil
}

// Add runs the plugins' ADD, in the order of the list. If it fails, it runs DEL, and
// nothing is left unless the error says so. An attachment that is there already, also an
// unfinished one, is removed by DEL first.
func (d *Delegates) Add(ctx context.Context, a Attachment) (*ifdriver.Result, error) {
	if err := a.validate(); err != nil {
		return nil, err
	}
	if err := d.Del(ctx, a.ContainerID, a.IfName); err != nil {
		return nil, fmt.Errorf("remove remains of an earlier attempt: %w", err)
	}
	id, err := netns.Identify(a.NetnsPath)
	if err != nil {
		return nil, err
	}
	release, err := d.slot(ctx, a)
	if err != nil {
		return nil, err
	}
	defer release()
	k := Kept{Attachment: a, Netns: id, BootID: d.bootID, Begun: time.Now().UTC()}
	if err := d.keep(k); err != nil {
		return nil, err
	}
	result, reached, err := d.add(ctx, &k)
	if err == nil {
		return result, nil
	}
	// The context may have ended, and DEL has to run nevertheless.
	if undo := d.undo(context.WithoutCancel(ctx), k, reached, err); undo != nil {
		//nolint:errorlint // callers match the cause only
		err = fmt.Errorf("%w (and undoing it failed, a DEL will try again: %v)", err, undo)
	}
	return nil, err
}

// add also returns the index of the last plugin that ran.
func (d *Delegates) add(ctx context.Context, k *Kept) (*ifdriver.Result, int, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Wait)
	defer cancel()
	c, err := readChain(k.Conf)
	if err != nil {
		return nil, 0, err
	}
	for i := range c.Plugins {
		result, err := d.addOne(ctx, c, i, *k)
		if err != nil {
			return nil, i, err
		}
		k.RawResult = result
	}
	last := len(c.Plugins) - 1
	// Before it is judged, because the DEL of a refused result needs it.
	if err := d.keep(*k); err != nil {
		return nil, last, err
	}
	result, err := k.Result()
	if err != nil {
		return nil, last, err
	}
	return result, last, otherName(result, k.IfName, c.types())
}

// undo removes an attachment whose ADD failed with cause. Two kinds of failed DELs do not keep
// it, because some plugins can't carry out a DEL either, for example while a parent device is
// missing. The first kind is the DEL of a plugin that never ran. The second kind has the error of
// the ADD: the plugin then fails before it makes anything.
func (d *Delegates) undo(ctx context.Context, k Kept, reached int, cause error) error {
	var failed *PluginError
	if !errors.As(cause, &failed) {
		failed = &PluginError{}
	}
	// DEL gets the result of the whole list or none, as after a restart.
	k, err := d.Get(k.ContainerID, k.IfName)
	if err != nil {
		return err
	}
	return d.del(ctx, k, func(i int, err error) bool {
		var again *PluginError
		same := errors.As(err, &again) && failed.Code != 0 && again.same(failed)
		return i > reached || i == reached && same
	})
}

// Del runs the plugins' DEL, in the reverse order, with the arguments and the result of Add. A
// missing attachment is not an error. After an error the attachment stays on disk for a further
// attempt.
func (d *Delegates) Del(ctx context.Context, containerID, ifName string) error {
	k, err := d.Get(containerID, ifName)
	if errors.Is(err, ErrNotKept) {
		return nil
	}
	if err != nil {
		return err
	}
	release, err := d.slot(ctx, k.Attachment)
	if err != nil {
		return err
	}
	defer release()
	return d.del(ctx, k, func(int, error) bool { return false })
}

// slot waits until the plugins of an interface may run. The caller releases it.
func (d *Delegates) slot(ctx context.Context, a Attachment) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, slotWait)
	defer cancel()
	_, late := d.failing.Load(d.path(a.ContainerID, a.IfName))
	release, err = d.queue.acquire(ctx, party{namespace: a.arg("K8S_POD_NAMESPACE"), container: a.ContainerID}, late)
	if err != nil {
		return nil, fmt.Errorf(
			"the CNI plugins of %s did not run, because those of %d others are running: %w",
			a.IfName,
			d.queue.running(),
			err,
		)
	}
	return release, nil
}

// del continues after an error of plugin i if ignored returns true for the error. The caller has
// a slot.
func (d *Delegates) del(ctx context.Context, k Kept, ignored func(i int, err error) bool) (err error) {
	path := d.path(k.ContainerID, k.IfName)
	defer func() {
		if err != nil {
			d.failing.Store(path, true)
		} else {
			d.failing.Delete(path)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, d.cfg.UndoWait)
	defer cancel()
	c, err := readChain(k.Conf)
	if err != nil {
		return err
	}
	for i := len(c.Plugins) - 1; i >= 0; i-- {
		err := d.delOne(ctx, c, i, k)
		if err != nil && !ignored(i, err) {
			return err
		}
		if err != nil {
			d.cfg.Log.Warn("a plugin could not undo its failed ADD; it had made nothing", "pod", k.Description, "error", err)
		}
	}
	return d.forget(k)
}

// Check runs the plugins' CHECK with the arguments and the result of Add. A configuration before
// CNI 0.4.0, or with disableCheck, has no CHECK.
func (d *Delegates) Check(ctx context.Context, containerID, ifName string) error {
	k, err := d.Get(containerID, ifName)
	if err != nil {
		return err
	}
	c, err := readChain(k.Conf)
	if err != nil || c.DisableCheck || !c.hasCheck() {
		return err
	}
	release, err := d.slot(ctx, k.Attachment)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Wait)
	defer cancel()
	for i := range c.Plugins {
		if _, err := d.command(ctx, "CHECK", c, i, k); err != nil {
			return err
		}
	}
	return nil
}

// Alive reports whether the network namespace of an attachment is the one of its ADD.
func (d *Delegates) Alive(k Kept) bool {
	id, err := netns.Identify(k.NetnsPath)
	return err == nil && id == k.Netns && k.BootID == d.bootID
}

// arg returns a value of CNI_ARGS, "" without one.
func (a Attachment) arg(key string) string {
	for _, arg := range a.Args {
		if arg[0] == key {
			return arg[1]
		}
	}
	return ""
}

func (a Attachment) validate() error {
	if err := utils.ValidateContainerID(a.ContainerID); err != nil {
		return fmt.Errorf("container ID: %w", err)
	}
	if err := utils.ValidateInterfaceName(a.IfName); err != nil {
		return fmt.Errorf("interface name: %w", err)
	}
	for _, arg := range a.Args {
		if arg[0] == "" || strings.ContainsAny(arg[0], "=;\x00") || strings.ContainsAny(arg[1], ";\x00") {
			return fmt.Errorf("CNI_ARGS can't have %.80q=%.80q; remove the semicolon", arg[0], arg[1])
		}
	}
	return nil
}
