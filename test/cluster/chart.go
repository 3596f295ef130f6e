// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/test/cluster/build"
	"github.com/alioth-net/alioth/test/cluster/control"
	"github.com/alioth-net/alioth/test/cluster/release"
	"github.com/alioth-net/alioth/test/images"
)

// VXLANDevice is the device beside eth0 that the nodes may have VXLANs on. No node has it at
// first.
const VXLANDevice = "second0"

// installChart installs or upgrades Alioth by its chart, and restarts it where
// its image has changed under the same name.
func (c *Cluster) installChart(ctx context.Context, p parts) error {
	if !exists(filepath.Join(p.alioth.Chart, "Chart.yaml")) {
		return fmt.Errorf("install Alioth: there is no chart in %s: use --cni bridge or --cni none", p.alioth.Chart)
	}
	c.progress("installing Alioth by its chart")
	if err := c.upgrade(ctx, p.alioth); err != nil {
		return err
	}
	return c.refreshAlioth(ctx, p.alioth.Image)
}

// workTree returns the version of the work tree, whose image is one of archives.
func (c *Cluster) workTree(archives []images.Archive) release.Version {
	v := release.Version{Chart: filepath.Join(c.root, "helm", "alioth")}
	for _, a := range archives {
		if a.Ref == images.Alioth {
			v.Image = a
		}
	}
	return v
}

// WorkTree makes the version of the work tree.
func (c *Cluster) WorkTree(ctx context.Context) (release.Version, error) {
	b := &images.Builder{Root: c.root, Out: c.path("images"), Progress: c.progress}
	archive, err := b.Build(ctx, images.Alioth)
	return c.workTree([]images.Archive{archive}), err
}

// Install changes the lab to another version of Alioth as people do, by its chart, with further
// arguments for Helm, and returns when Helm does.
func (c *Cluster) Install(ctx context.Context, v release.Version, arguments ...string) error {
	b, err := c.builder()
	if err != nil {
		return err
	}
	bin, err := b.Ensure(ctx, build.Containerd(c.Versions().Containerd))
	if err != nil {
		return err
	}
	for _, n := range c.Nodes() {
		if err := c.loadImages(ctx, n.Name, bin, []images.Archive{v.Image}, nil); err != nil {
			return err
		}
	}
	if err := c.upgrade(ctx, v, arguments...); err != nil {
		return err
	}
	return c.state.update(func(s *State) { s.Installed = v.Image.Digest })
}

// Revision returns the number of the revision of Helm that is installed.
func (c *Cluster) Revision(ctx context.Context) (int, error) {
	out, err := c.Helm(ctx, "history", "alioth", "--namespace", SystemNamespace, "--output", "json")
	if err != nil {
		return 0, err
	}
	return deployed(out)
}

// deployed returns the installed revision of a history by Helm. Later revisions have failed.
func deployed(history string) (int, error) {
	var revisions []struct {
		Revision int    `json:"revision"`
		Status   string `json:"status"`
	}
	if err := json.Unmarshal([]byte(history), &revisions); err != nil {
		return 0, fmt.Errorf("read the history of Helm: %w", err)
	}
	for _, revision := range slices.Backward(revisions) {
		if revision.Status == "deployed" {
			return revision.Revision, nil
		}
	}
	return 0, fmt.Errorf("no revision of Helm is deployed: %s", history)
}

// RollBack goes back to a revision of Helm, which installed v. The nodes still have its image.
func (c *Cluster) RollBack(ctx context.Context, v release.Version, revision int) error {
	if _, err := c.Helm(ctx, "rollback", "alioth", strconv.Itoa(revision), "--namespace", SystemNamespace, "--wait", "--timeout", "3m"); err != nil {
		return err
	}
	return c.state.update(func(s *State) { s.Installed = v.Image.Digest })
}

// upgrade has Helm install a version, or upgrade to it.
func (c *Cluster) upgrade(ctx context.Context, v release.Version, arguments ...string) error {
	if _, err := c.Helm(ctx, append(c.helmArgs(v), arguments...)...); err != nil {
		return fmt.Errorf("install the chart (look at it with .cluster/bin/kubectl -n %s get pods): %w", SystemNamespace, err)
	}
	return nil
}

// helmArgs has values that the charts of the work tree and of the last release know.
func (c *Cluster) helmArgs(v release.Version) []string {
	_, tag, _ := strings.Cut(v.Image.Ref, ":")
	args := []string{
		"upgrade", "--install", "alioth", v.Chart,
		"--namespace", SystemNamespace, "--create-namespace",
		"--set", "apiServer.host=" + c.Nodes()[0].IPv4.String(),
		"--set", fmt.Sprintf("apiServer.port=%d", control.Port),
		"--set", "image.tag=" + tag, "--set", "image.pullPolicy=Never", "--set", "daemon.proxyHealth=true", "--set", "multiNetwork.delegation.enabled=true", "--set", "multiNetwork.globalNamespaces={alioth-global}",
		"--set", "multiNetwork.vpcTypes={flannel}", "--set", "multiNetwork.vxlanDevices={" + VXLANDevice + "}", "--set", "nodeNetworkState.enabled=true",
		"--set", "nodeIPAM.enabled=true", "--set", "nodeIPAM.infraSubnet=default", "--set", "nodeIPAM.devices={ipam*}",
		// Tests wait until a daemon finds changes that the kernel does not report, and
		// until the VNIs of their VPCs are free.
		"--set", "daemon.extraArgs={--recheck-every=8s,--delegation-host=parent}", "--set", "operator.extraArgs={--roll-call-every=1s}",
		"--wait",
	}
	if c.Topology().Guests == 0 {
		return append(args, "--timeout", "3m")
	}
	// The processors of virtual machines are emulated, and slow beside other work; their
	// adapters have virtual functions.
	return append(args, "--timeout", "10m", "--set", "multiNetwork.sriov.enabled=true")
}

// refreshAlioth restarts the pods that run an older image: the image's name does not change in the
// lab, so that nothing else would notice.
func (c *Cluster) refreshAlioth(ctx context.Context, image images.Archive) error {
	installed := c.state.get().Installed
	if installed != "" && installed != image.Digest {
		c.progress("restarting Alioth with its new image")
		if err := c.RestartAlioth(ctx); err != nil {
			return err
		}
	}
	return c.state.update(func(s *State) { s.Installed = image.Digest })
}

// RestartAlioth rolls out Alioth's operator and daemon anew, as `kubectl
// rollout restart` does, and waits until all are available.
func (c *Cluster) RestartAlioth(ctx context.Context) error {
	apps := c.Client().AppsV1()
	patch, err := restartPatch(time.Now())
	if err != nil {
		return err
	}
	deployments, err := apps.Deployments(SystemNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list Alioth's deployments: %w", err)
	}
	daemonSets, err := apps.DaemonSets(SystemNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list Alioth's daemonsets: %w", err)
	}
	for _, d := range deployments.Items {
		if _, err := apps.Deployments(SystemNamespace).Patch(ctx, d.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("restart the deployment %s: %w", d.Name, err)
		}
	}
	for _, d := range daemonSets.Items {
		if _, err := apps.DaemonSets(SystemNamespace).Patch(ctx, d.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("restart the daemonset %s: %w", d.Name, err)
		}
	}
	for _, d := range deployments.Items {
		if err := c.WaitDeploymentReady(ctx, SystemNamespace, d.Name); err != nil {
			return err
		}
	}
	for _, d := range daemonSets.Items {
		if err := c.WaitDaemonSetReady(ctx, SystemNamespace, d.Name); err != nil {
			return err
		}
	}
	return nil
}

// restartPatch changes a pod template in the way kubectl does.
func restartPatch(now time.Time) ([]byte, error) {
	annotations := map[string]string{"kubectl.kubernetes.io/restartedAt": now.Format(time.RFC3339)}
	raw, err := json.Marshal(map[string]any{
		"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": annotations}}},
	})
	if err != nil {
		return nil, fmt.Errorf("encode the restart of a rollout: %w", err)
	}
	return raw, nil
}
