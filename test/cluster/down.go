// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/cluster/host"
	"github.com/alioth-net/alioth/test/cluster/objects"
	"github.com/alioth-net/alioth/test/cluster/process"
	"github.com/alioth-net/alioth/test/cluster/underlay"
	"github.com/alioth-net/alioth/test/waits"
)

// downTimeout bounds the waiting for processes and cgroups to go.
const downTimeout = time.Minute

// Down removes the lab in dir ("" is DefaultDir) of the work tree root, however far its start came.
// Archives of images and the logs of the last run stay. Down succeeds without a lab.
func Down(ctx context.Context, root, dir string, progress func(line string)) error {
	if dir == "" {
		dir = DefaultDir(root)
	}
	c, found, err := attach(root, dir, progress)
	if err != nil || !found {
		return err
	}
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return c.remove(ctx)
}

// Down removes the lab; see the function of that name.
func (c *Cluster) Down(ctx context.Context) error {
	return Down(ctx, c.root, c.dir, c.progress)
}

// DownForeign removes by their names the remainders of another work tree's lab called t.Lab on this
// machine, for when its own state is lost.
func DownForeign(ctx context.Context, root string, t underlay.Topology, progress func(line string)) error {
	dir, err := os.MkdirTemp("", "alioth-lab-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer os.RemoveAll(dir)
	c, _, err := attach(root, dir, progress)
	if err != nil {
		return err
	}
	c.state.state.Topology = t
	return c.remove(ctx)
}

// makeRoom removes the remainders of a lab of the same name whose processes have all ended, for
// example because the runner of its tests was killed. A lab with a process is an error: it belongs
// to another work tree.
func (c *Cluster) makeRoom(ctx context.Context, t underlay.Topology) error {
	names, err := t.Namespaces()
	if err != nil || len(names) == 0 {
		return err
	}
	dead := State{Topology: t}
	spaces, err := c.namespaceFiles(dead)
	if err != nil {
		return err
	}
	left, err := c.processes(dead.groups(), nil, spaces)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf(
			"network namespaces of another lab exist (%s), with %d processes: run `make down` in the work tree that made it, or here: go run ./test/cluster/cmd/lab down --force",
			strings.Join(names, ", "),
			len(left),
		)
	}
	c.progress("removing what a lab has left whose processes have ended: " + strings.Join(names, ", "))
	return DownForeign(ctx, c.root, t, c.progress)
}

func (c *Cluster) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, waits.Limit(downTimeout))
	defer cancel()
	state := c.state.get()
	c.progress("ending all processes of the lab")
	if err := c.killAll(ctx, state); err != nil {
		// With processes left, the rest would fail or pull the floor from
		// under them; a second attempt finds all of it still recorded.
		return err
	}
	c.progress("removing networks, cgroups and files")
	errs := []error{state.Topology.Down()}
	for _, name := range state.groups() {
		errs = append(errs, c.cgroups.Remove(ctx, name))
	}
	errs = append(errs,
		host.UnmountBelow(c.path("nodes")),
		host.DefaultLedger().Return(state.Topology.Lab, underlay.InUse),
	)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return c.removeFiles()
}

// removeFiles removes the lab's folder but for the files that the next run can use. The state goes
// last, so that an interrupted removal can be repeated.
func (c *Cluster) removeFiles() error {
	for _, name := range []string{"nodes", "guests", "scratch", "control", "bin", "cache", "kubeconfig", "state.json.new", "state.json"} {
		if err := os.RemoveAll(c.path(name)); err != nil {
			return fmt.Errorf("remove the lab's files: %w", err)
		}
	}
	return nil
}

// groups returns the names of the cgroups of all nodes.
func (s State) groups() []string { return s.Topology.NodeNames() }

// killAll ends the processes that the lab started, and their children: the kubelets first, which
// would start containers anew, then everything in the nodes' cgroups and namespaces until nothing
// is left.
func (c *Cluster) killAll(ctx context.Context, state State) error {
	for _, name := range state.Topology.NodeNames() {
		if d, ok := state.Daemons[name+"/kubelet"]; ok {
			if err := d.ID.Signal(unix.SIGKILL); err != nil {
				return err
			}
		}
	}
	spaces, err := c.namespaceFiles(state)
	if err != nil {
		return err
	}
	return c.killEach(ctx, state.groups(), state.Daemons, spaces)
}

// killEach kills every process in cgroups or namespaces, and every daemon, until none is left.
// A process that is killed may leave a cgroup frozen, so groups are thawed after each round.
func (c *Cluster) killEach(ctx context.Context, groups []string, daemons map[string]Daemon, spaces []string) error {
	return objects.WaitFor(ctx, "no process is left", func(context.Context) error {
		left, err := c.processes(groups, daemons, spaces)
		if err != nil || len(left) == 0 {
			return err
		}
		for _, id := range left {
			if err := id.Signal(unix.SIGKILL); err != nil {
				return err
			}
		}
		for _, group := range groups {
			if err := c.cgroups.Thaw(group); err != nil {
				return err
			}
		}
		return fmt.Errorf("%d processes, the first of them %d", len(left), left[0].PID)
	})
}

// namespaceFiles returns files that stand for the lab's network and mount
// namespaces as long as the process of the caller lives.
func (c *Cluster) namespaceFiles(state State) ([]string, error) {
	var files []string
	names, err := state.Topology.Namespaces()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		files = append(files, underlay.NetNSPath(name))
	}
	for _, name := range state.Topology.NodeNames() {
		if d, ok := state.Daemons[name+"/holder"]; ok && d.ID.Alive() {
			files = append(files, process.SpaceOf(d.ID).Mount)
		}
	}
	return files, nil
}

// processes returns every living process in cgroups or namespaces, and every
// daemon that lives, once.
func (c *Cluster) processes(groups []string, daemons map[string]Daemon, spaces []string) ([]process.ID, error) {
	pids, err := process.Inside(spaces)
	if err != nil {
		return nil, err
	}
	for _, group := range groups {
		members, err := c.cgroups.Processes(group)
		if err != nil {
			return nil, err
		}
		pids = append(pids, members...)
	}
	slices.Sort(pids)
	var left []process.ID
	for _, pid := range slices.Compact(pids) {
		id, err := process.Identify(pid)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("identify process %d: %w", pid, err)
		}
		if id.Alive() {
			left = append(left, id)
		}
	}
	for _, d := range daemons {
		if d.ID.Alive() && !slices.Contains(left, d.ID) {
			left = append(left, d.ID)
		}
	}
	return left, nil
}
