// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/cmd/aliothctl/options"
	"github.com/alioth-net/alioth/cnid"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/inspect/preflight"
	"github.com/alioth-net/alioth/cnid/inspect/preflight/nodefacts"
	"github.com/alioth-net/alioth/cnid/inspect/preflight/survey"
)

// errBlocked reports that a finding prevents the installation.
var errBlocked = errors.New("a finding prevents the installation")

// readiness is the command line of preflight.
type readiness struct {
	access
	values  []string
	release string
	format  string
	// here checks the node that the command runs on, whose files are below root.
	here bool
	root string
	// facts are values of the chart as JSON: the command prints facts and does not judge.
	facts string
	// inside checks each node by a pod.
	inside bool
	pods   survey.NodePods
}

func preflightCommand() *cobra.Command {
	r := &readiness{
		access: defaultAccess(), format: options.Text, release: "alioth", root: "/",
		pods: survey.NodePods{Namespace: "kube-system", Within: 2 * time.Minute},
	}
	cmd := &cobra.Command{
		Use:   "preflight",
		Short: "Check a cluster or a node before Alioth is installed, and tell what to do",
		Long: `Check whether Alioth can be installed. Each finding is one line: its severity, its
check, the fact, and what to do. The checks are described in
docs/install/preflight.md.

Without further flags the command reads a cluster through its API server: versions,
ranges that overlap, other networks, Pod Security, CRDs. Give the values of your
installation with --values.

With --node it checks the machine on which it runs, and needs no cluster: kernel,
ports, MTU, packet filters, CNI folders. Run it as root. It tries the devices, the
packet filter and the BPF programs of Alioth in a network namespace that ends with
the attempt, and changes nothing else.

With --node-checks it checks the cluster and, by a privileged pod for some seconds on
each node, all nodes too. The pods have the image and the pull policy of the values,
so that the check finds out whether the nodes have the image.

Exit status: 0 without a blocking finding, 1 with one, 2 if the cluster can't be
read.`,
		Example: `  aliothctl preflight --values values.yaml
  aliothctl preflight --values values.yaml --node-checks
  sudo aliothctl preflight --node`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd) },
	}
	r.addFlags(cmd)
	return cmd
}

func (r *readiness) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVarP(
		&r.values,
		"values",
		"f",
		nil,
		"file with values of the chart, as for helm install; may be repeated",
	)
	flags.StringVar(&r.release, "release", r.release, "name of the Helm release to be")
	flags.BoolVar(&r.here, "node", r.here, "check the machine on which the command runs, without a cluster")
	flags.StringVar(&r.root, "root", r.root, "folder with the files of the machine, for --node in a container")
	flags.BoolVar(&r.inside, "node-checks", r.inside, "check each node of the cluster by a privileged pod")
	flags.StringVar(
		&r.pods.Image,
		"image",
		r.pods.Image,
		"image of Alioth for --node-checks, in the place of the one of the values",
	)
	flags.StringVar(
		(*string)(&r.pods.PullPolicy),
		"image-pull-policy",
		"",
		"pull policy of that image, in the place of the one of the values: Always, IfNotPresent or Never",
	)
	flags.StringVar(
		&r.pods.Namespace,
		"check-namespace",
		r.pods.Namespace,
		"namespace of the pods of --node-checks; it has to permit privileged pods",
	)
	flags.DurationVar(&r.pods.Within, "node-timeout", r.pods.Within, "how long the pod of one node may take")
	flags.StringVar(&r.facts, "facts", "", "print facts alone, with these values of the chart")
	if err := flags.MarkHidden("facts"); err != nil {
		panic(err)
	}
	r.access.addFlags(cmd)
	options.AddFormat(cmd, &r.format)
	options.Complete(cmd, &r.kubeconfig)
	cmd.MarkFlagsMutuallyExclusive("node", "node-checks")
}

func (r *readiness) run(cmd *cobra.Command) error {
	values, err := r.readValues()
	if err != nil {
		return err
	}
	if r.here {
		return r.checkHere(cmd, values)
	}
	if r.facts != "" {
		return errors.New("--facts needs --node")
	}
	return r.checkCluster(cmd, values)
}

func (r *readiness) readValues() (values preflight.Values, err error) {
	if r.facts != "" {
		if err := json.Unmarshal([]byte(r.facts), &values); err != nil {
			return values, fmt.Errorf("--facts: %w", err)
		}
		return values, nil
	}
	var files [][]byte
	for _, path := range r.values {
		text, err := os.ReadFile(path)
		if err != nil {
			return values, fmt.Errorf("read the values of the chart: %w", err)
		}
		files = append(files, text)
	}
	return preflight.ParseValues(files...)
}

// checkHere checks the machine that the command runs on.
func (r *readiness) checkHere(cmd *cobra.Command, values preflight.Values) error {
	facts := nodefacts.Node(
		cmd.Context(),
		nodefacts.Config{Root: r.root, Values: values, StateDir: cnid.DefaultConfig().StateDir},
	)
	if r.facts != "" {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(facts)
	}
	return r.report(cmd, preflight.JudgeNode(facts, values))
}

// checkCluster checks a cluster, and its nodes from inside if that was asked for.
func (r *readiness) checkCluster(cmd *cobra.Command, values preflight.Values) error {
	config, err := options.RESTConfig(r.kubeconfig, cniapi.DefaultSocket)
	if err != nil {
		return fmt.Errorf("%w; without a cluster, --node checks this machine", err)
	}
	reader, err := survey.New(config)
	if err != nil {
		return err
	}
	cluster, err := reader.Cluster(cmd.Context(), r.namespace, r.release)
	if err != nil {
		return err
	}
	findings := preflight.JudgeCluster(cluster, values, r.inside)
	if r.inside {
		if err := r.completePods(values); err != nil {
			return err
		}
		for _, node := range reader.Inside(cmd.Context(), cluster.Linux(values), r.pods) {
			findings = append(findings, preflight.JudgeNode(node, values)...)
		}
	}
	return r.report(cmd, findings)
}

// completePods takes settings from the values of the chart that the command line leaves out.
func (r *readiness) completePods(values preflight.Values) error {
	r.pods.Values = values
	r.pods.Image = cmp.Or(r.pods.Image, values.Image.Reference())
	r.pods.PullPolicy = cmp.Or(r.pods.PullPolicy, corev1.PullPolicy(values.Image.PullPolicy))
	switch r.pods.PullPolicy {
	case "", corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever:
	default:
		return fmt.Errorf(
			"--image-pull-policy %q: want %s, %s or %s",
			r.pods.PullPolicy,
			corev1.PullAlways,
			corev1.PullIfNotPresent,
			corev1.PullNever,
		)
	}
	if r.pods.Within < time.Second {
		return fmt.Errorf("--node-timeout %s: want a second or more", r.pods.Within)
	}
	return nil
}

// report prints the findings. They are the requested output instead of an error message.
func (r *readiness) report(cmd *cobra.Command, findings []preflight.Finding) error {
	findings = preflight.Sorted(findings)
	if err := printFindings(cmd.OutOrStdout(), findings, r.format); err != nil {
		return err
	}
	if !preflight.Blocks(findings) {
		return nil
	}
	cmd.SilenceErrors = true
	return errBlocked
}

func printFindings(out io.Writer, findings []preflight.Finding, format string) error {
	if format == options.JSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(append([]preflight.Finding{}, findings...))
	}
	for _, finding := range findings {
		if _, err := fmt.Fprintln(out, finding); err != nil {
			return err
		}
	}
	verdict := "nothing prevents the installation"
	if preflight.Blocks(findings) {
		verdict = "resolve the blocking findings before the installation"
	}
	_, err := fmt.Fprintln(out, verdict)
	return err
}
