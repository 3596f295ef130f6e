// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// withFolder mounts a folder of the node, or nothing of it if the mount is nil.
func withFolder(p *corev1.Pod, path string, mount *corev1.VolumeMount) *corev1.Pod {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "folder", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: path},
	}})
	if mount != nil {
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, *mount)
	}
	return p
}

// mountOf returns a mount to read or to write. A node mounts the mounts below a folder with it:
// with ReadOnly alone the pod could write there.
func mountOf(readOnly bool) *corev1.VolumeMount {
	mount := &corev1.VolumeMount{Name: "folder", MountPath: "/mnt", ReadOnly: readOnly}
	if readOnly {
		mount.RecursiveReadOnly = new(corev1.RecursiveReadOnlyEnabled)
	}
	return mount
}

// reachesBelow returns a mount to read. The pod may write below it, where a node can't tell.
func reachesBelow(mode *corev1.RecursiveReadOnlyMode) *corev1.VolumeMount {
	return &corev1.VolumeMount{Name: "folder", MountPath: "/mnt", ReadOnly: true, RecursiveReadOnly: mode}
}

func TestTenantMount_FolderLeadsToNode_Refused(t *testing.T) {
	admin := start(t)
	establish(t, admin, namespace("folders-blue", tenant("blue")))
	establish(t, admin, namespace("folders-plain", nil))
	establish(t, admin, namespace("folders-empty", tenant("")))
	owner := person("folders-admin")
	grantIn(t, admin, "folders-blue", owner, "admin")
	mount := func(namespace, path string, m *corev1.VolumeMount) *corev1.Pod {
		return withFolder(pod(namespace, "p", ""), path, m)
	}
	const closed, readOnly = "tenants do not mount these folders of the node", "folders of the node are read-only for tenants"
	for _, path := range []string{
		"/run/alioth", "/run/alioth/cnid.sock", "/run/alioth/", "//run//alioth", "/./run/./alioth", "run/alioth", "/run/.", "/var/run/alioth", "/var/run", "/var//run/",
		"/var/lib/alioth", "/var/lib/alioth/journal", "/run/containerd/containerd.sock", "/run/netns", "/run/systemd/private", "/var/lib/containerd", "/var/lib/kubelet",
		"/var/lib/kubelet/device-plugins", "/var/lib/kubelet/pod-resources", "/var/lib/kubelet/pods", "/var/lib/cni", "/etc/cni/net.d", "/etc/cni", "/opt/cni/bin", "/etc/kubernetes/manifests",
		"/usr/lib/cni", "/lib/cni", "/lib", "/usr", "/mnt/link/x", "/mnt",
		"/root", "/root/.kube", "/home/somebody/.kube", "/etc/ssh", "/etc/shadow",
		"/proc", "/proc/1/root", "/sys/fs/bpf", "/sys/fs/cgroup", "/sys", "/dev/fd/3", "/dev", "/", "//", "/.", "/run", "/var", "/var/", "/var/lib", "/etc", "/opt",
	} {
		run(t, creations(t, "read-only "+path, owner, mount("folders-blue", path, mountOf(true)), closed))
	}
	first := mount("folders-blue", "/run", nil)
	first.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "example.com/none", VolumeMounts: []corev1.VolumeMount{*mountOf(true)}}}
	writes := mount("folders-blue", "/data", mountOf(true))
	writes.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "example.com/none", VolumeMounts: []corev1.VolumeMount{*mountOf(false)}}}
	part := mountOf(false)
	part.SubPath = "part"
	run(t, slices.Concat(
		creations(t, "back by two dots", owner, mount("folders-blue", "/data/../run/alioth", mountOf(true)), "'..'"),
		creations(t, "mounted by an init container", owner, first, closed),
		creations(t, "that no container mounts yet", owner, mount("folders-blue", "/run/alioth", nil), closed),
		creations(t, "as an administrator", clusterAdmin(), mount("folders-blue", "/run/alioth", mountOf(true)), closed),
		creations(t, "another folder", owner, mount("folders-blue", "/data", mountOf(true)), ""),
		creations(t, "a name that begins alike", owner, mount("folders-blue", "/running", mountOf(true)), ""),
		creations(t, "a file beside closed folders", owner, mount("folders-blue", "/etc/localtime", mountOf(true)), ""),
		creations(t, "another folder to write a link into", owner, mount("folders-blue", "/data", mountOf(false)), readOnly),
		creations(t, "another folder with all that is mounted below", owner, mount("folders-blue", "/data", reachesBelow(nil)), readOnly),
		creations(t, "one with that on some nodes", owner, mount("folders-blue", "/data", reachesBelow(new(corev1.RecursiveReadOnlyIfPossible))), readOnly),
		creations(t, "a part of it", owner, mount("folders-blue", "/data", part), readOnly),
		creations(t, "by an init container", owner, writes, readOnly),
		creations(t, "a folder that tenants may write", owner, mount("folders-blue", "//srv/shared", mountOf(false)), ""),
		creations(t, "what is below it, where a link may be", owner, mount("folders-blue", "/srv/shared/link", mountOf(true)), "another pod may have made a link"),
		creations(t, "what is above it", owner, mount("folders-blue", "/srv", mountOf(false)), readOnly),
		creations(t, "without a tenant", clusterAdmin(), mount("folders-plain", "/run/alioth", mountOf(false)), ""),
		creations(t, "with an empty tenant", clusterAdmin(), mount("folders-empty", "/run/alioth", mountOf(false)), ""),
	))
}

// An ephemeral container is the only change of a pod that can give it the right to write.
func TestEphemeralContainer_WritableFolder_Refused(t *testing.T) {
	admin := start(t)
	establish(t, admin, namespace("folders-late", tenant("late")))
	running := withFolder(pod("folders-late", "p", ""), "/data", mountOf(true))
	create(t, admin, running)
	debug := func(mounts ...corev1.VolumeMount) func(context.Context, client.Client) error {
		changed := running.DeepCopy()
		changed.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: "debug", Image: "example.com/none", ImagePullPolicy: corev1.PullNever, TerminationMessagePolicy: corev1.TerminationMessageReadFile, VolumeMounts: mounts,
		}}}
		return func(ctx context.Context, c client.Client) error {
			return c.SubResource("ephemeralcontainers").Update(ctx, changed.DeepCopy(), client.DryRunAll)
		}
	}
	run(t, []attempt{
		{name: "without a mount", who: clusterAdmin(), do: debug()},
		{name: "to read", who: clusterAdmin(), do: debug(*mountOf(true))},
		{name: "to write below", who: clusterAdmin(), do: debug(*reachesBelow(nil)), refused: "folders of the node are read-only for tenants"},
		{name: "to write", who: clusterAdmin(), do: debug(*mountOf(false)), refused: "folders of the node are read-only for tenants"},
	})
}
