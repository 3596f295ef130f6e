{{/* Names, labels, and parts that several templates share. */}}

{{- define "alioth.labels" -}}
app.kubernetes.io/name: alioth
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/*
Begin of the names of workloads and of what belongs to them: Deployments, the DaemonSet, the
PodDisruptionBudget, metrics. Roles, ServiceAccounts and policies have fixed names, because
policies, rights and tools refer to them, as do the labels above.
*/}}
{{- define "alioth.fullname" -}}
{{- $name := .Values.fullnameOverride -}}
{{- if and (not $name) .Values.nameOverride -}}
{{- $name = ternary .Release.Name (printf "%s-%s" .Release.Name .Values.nameOverride) (contains .Values.nameOverride .Release.Name) -}}
{{- end -}}
{{- if regexMatch "^[0-9]" $name -}}
{{- fail (printf "%s: %q begins with a digit, and names of Services must begin with a letter: set fullnameOverride to a name that does" (ternary "fullnameOverride" "the name of the release" (ne .Values.fullnameOverride "")) $name) -}}
{{- end -}}
{{- $name | default "alioth" | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "alioth.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* Types of networks that are made from a device of the node, as a list of CEL. */}}
{{- define "alioth.dynamicTypes" -}}
['ipvlan', 'macvlan', 'sriov']
{{- end -}}

{{/* User names of the two programs, as admission policies see them. */}}
{{- define "alioth.operatorUser" -}}
system:serviceaccount:{{ .Release.Namespace }}:alioth-operator
{{- end -}}
{{- define "alioth.daemonUser" -}}
system:serviceaccount:{{ .Release.Namespace }}:alioth-cnid
{{- end -}}
{{- define "alioth.uninstallUser" -}}
system:serviceaccount:{{ .Release.Namespace }}:alioth-uninstall
{{- end -}}

{{/* Host of the API server; the chart can't guess it. */}}
{{- define "alioth.apiServerHost" -}}
{{- required "apiServer.host is not set: give the address at which the nodes reach the API server, for example --set apiServer.host=192.0.2.10; a ClusterIP does not work, because it is not served before Alioth runs" .Values.apiServer.host -}}
{{- end -}}

{{/* The service ranges, comma-separated: from the values, or else from the cluster. */}}
{{- define "alioth.serviceCIDRs" -}}
{{- $cidrs := .Values.serviceCIDRs -}}
{{- if not $cidrs -}}
{{- range (lookup "networking.k8s.io/v1" "ServiceCIDR" "" "").items -}}
{{- $cidrs = concat $cidrs .spec.cidrs -}}
{{- end -}}
{{- end -}}
{{- if not $cidrs -}}
{{- fail "serviceCIDRs is not set, and there is no cluster to ask: give the ranges of the API server's --service-cluster-ip-range, for example --set serviceCIDRs={10.96.0.0/16}" -}}
{{- end -}}
{{- join "," (uniq $cidrs) -}}
{{- end -}}

{{/* Address of the API server, for in-cluster configuration. */}}
{{- define "alioth.apiServerEnv" -}}
- name: KUBERNETES_SERVICE_HOST
  value: {{ include "alioth.apiServerHost" . | quote }}
- name: KUBERNETES_SERVICE_PORT
  value: {{ .Values.apiServer.port | quote }}
# A connection that receives nothing ends after 15 s, not after 45 s as by default: the node
# has a new address, or the server is gone without a word.
- name: HTTP2_READ_IDLE_TIMEOUT_SECONDS
  value: "5"
- name: HTTP2_PING_TIMEOUT_SECONDS
  value: "10"
{{- end -}}

{{/* Host of the address of /metrics; HOST_IP is the node's, see metricsEnv. */}}
{{- define "alioth.metricsHost" -}}
{{ ternary "[$(HOST_IP)]" "127.0.0.1" (eq .Values.metrics.listen "node") }}
{{- end -}}

{{/* The address of the node, for metricsHost. */}}
{{- define "alioth.metricsEnv" -}}
{{- if eq .Values.metrics.listen "node" }}
- name: HOST_IP
  valueFrom:
    fieldRef:
      fieldPath: status.hostIP
{{- end }}
{{- end -}}

{{/* Arguments that operator and daemon share. */}}
{{- define "alioth.sharedArgs" -}}
- --default-vpc={{ .Values.defaultVPC.name }}
- --service-cidrs={{ include "alioth.serviceCIDRs" . }}
- --shadow-cidrs={{ join "," .Values.shadowCIDRs }}
- --log-level={{ .Values.log.level }}
- --log-format={{ .Values.log.format }}
{{- if .Values.scaledEndpoints.enabled }}
- --scaled-endpoints=true
{{- end }}
{{- if .Values.nodeNetworkState.enabled }}
- --node-network-state=true
- --node-network-policy-mode={{ .Values.nodeNetworkState.policyMode | default "distributed" }}
{{- end }}
{{- end -}}

{{/* Secrets for pulling the image, where there are any. */}}
{{- define "alioth.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/*
Not empty if the cluster has the CRD called .name and it is not of this release. Ownership
shows in the annotations that Helm writes.
*/}}
{{- define "alioth.crdOfOthers" -}}
{{- $there := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" .name -}}
{{- $release := dig "metadata" "annotations" "meta.helm.sh/release-name" "" $there -}}
{{- $namespace := dig "metadata" "annotations" "meta.helm.sh/release-namespace" "" $there -}}
{{- if and $there (not (and (eq $release .root.Release.Name) (eq $namespace .root.Release.Namespace))) -}}true{{- end -}}
{{- end -}}

{{/* A binding of the policy called .name; with .params, all objects of the kind are parameters. */}}
{{- define "alioth.policyBinding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "alioth.labels" .root | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: [{{ .action | default "Deny" }}]
  {{- if .params }}
  # Every object of the kind is a parameter. Without any object the policy refuses
  # nothing.
  paramRef:
    selector: {}
    parameterNotFoundAction: Allow
  {{- end }}
{{- end -}}

{{/* List of texts in CEL. */}}
{{- define "alioth.celList" -}}
[{{ range $i, $text := . }}{{ if $i }}, {{ end }}'{{ $text }}'{{ end }}]
{{- end -}}

{{/*
List of folders in CEL, in the form of the policy alioth-pod-host-folders: without what
means nothing, by the real names of folders with two, and with a slash at the end.
*/}}
{{- define "alioth.celFolders" -}}
{{- $folders := list -}}
{{- range . -}}
{{- $path := regexReplaceAll "^/var/run(/|$)" (clean .) "/run${1}" -}}
{{- $path = regexReplaceAll "^/(bin|sbin|lib|lib32|lib64)(/|$)" $path "/usr/${1}${2}" -}}
{{- $folders = append $folders (printf "%s/" (trimSuffix "/" $path)) -}}
{{- end -}}
{{- include "alioth.celList" (uniq $folders) -}}
{{- end -}}

{{/* Annotations that the operator alone writes, as a list in CEL. */}}
{{- define "alioth.ownedAnnotations" -}}
{{- include "alioth.celList" (list "alioth.dev/attachments" "arktos.futurewei.com/network-readiness" "mizar.futurewei.com/network_user_input") -}}
{{- end -}}

{{/*
Whether a write of a status changes conditions of Alioth, in CEL. The first comparison alone
decides for most writes of kubelets.
*/}}
{{- define "alioth.conditionsChange" -}}
object.?status.?conditions != oldObject.?status.?conditions &&
object.?status.?conditions.orValue([]).filter(c, c.type.startsWith('alioth.dev/')) !=
oldObject.?status.?conditions.orValue([]).filter(c, c.type.startsWith('alioth.dev/'))
{{- end -}}

{{/* The name of the node that a request's token is bound to, in CEL; '' for none. */}}
{{- define "alioth.tokenNode" -}}
request.userInfo.?extra[?'authentication.kubernetes.io/node-name'].orValue([]).join(',')
{{- end -}}

{{/*
Policies with parameters exclude the creation of the default VPC and its subnets. The
chart creates them right after their kinds, when the API server may not have read a
policy's parameters yet and would refuse. The operator checks the same rules.
*/}}
{{- define "alioth.exceptDefaultVPC" -}}
{{- with .Values.defaultVPC }}
{{- if .enabled -}}
excludeResourceRules:
  - apiGroups: [alioth.dev]
    apiVersions: [v1alpha1]
    operations: [CREATE]
    resources: [vpcs]
    resourceNames: [{{ .name }}]
  - apiGroups: [alioth.dev]
    apiVersions: [v1alpha1]
    operations: [CREATE]
    resources: [subnets]
    resourceNames: [{{ range $i, $subnet := .subnets }}{{ if $i }}, {{ end }}{{ $subnet.name }}{{ end }}]
{{- end }}
{{- end }}
{{- end -}}

{{/* An IPv4 address (an expression in CEL) as a number. */}}
{{- define "alioth.celNumber4" -}}
[0, 1, 2, 3].map(i, int({{ . }}.split('.')[i]) * [16777216, 65536, 256, 1][i]).sum()
{{- end -}}

{{/*
An IPv6 address in canonical form (an expression in CEL) as eight groups of four digits, so
that texts compare as addresses do.
*/}}
{{- define "alioth.celText6" -}}
({{ . }}.contains('::') ?
({{ . }}.split('::')[0].split(':').filter(g, g != '') + [0, 1, 2, 3, 4, 5, 6, 7].filter(i, i < 8 -
{{ . }}.split('::')[0].split(':').filter(g, g != '').size() - {{ . }}.split('::')[1].split(':').filter(g, g != '').size()).map(i, '0') +
{{ . }}.split('::')[1].split(':').filter(g, g != '')) :
{{ . }}.split(':')).map(g, ('0000' + g).substring(g.size())).join(':')
{{- end -}}

{{/* The longest message of a condition, as api/quote cuts it. */}}
{{- define "alioth.maxMessage" -}}
1024
{{- end -}}

{{/*
The last parts of names of enactments that are more than a node and a policy without a dot (package
api/nmstate/v1beta1, EnactmentName), as an expression.
*/}}
{{- define "alioth.enactmentParts" -}}
^(netconf|(netconf-)?parts-[1-9][0-9]*|sha256-[0-9a-f]{64})$
{{- end -}}

{{/* The part of an enactment's name behind the node's name, for a policy; a reference of that name in CEL. */}}
{{- define "alioth.enactmentEnding" -}}
('.' + {{ . }}.name + ({{ . }}.kind == 'NodeNetConfPolicy' ? ({{ . }}.name.contains('.') ? '.netconf-parts-' + string({{ . }}.name.split('.').size()) : '.netconf') : ({{ . }}.name.contains('.') || {{ . }}.name.matches('{{ include "alioth.enactmentParts" . }}') ? '.parts-' + string({{ . }}.name.split('.').size()) : '')))
{{- end -}}

{{/* The same part in names that earlier versions gave. */}}
{{- define "alioth.formerEnactmentEnding" -}}
('.' + {{ . }}.name + ({{ . }}.kind == 'NodeNetConfPolicy' ? '.netconf' : ''))
{{- end -}}

{{/* Not empty if nodes offer devices to their kubelets. */}}
{{- define "alioth.devicePlugin" -}}
{{- if and .Values.nodeIPAM.enabled .Values.nodeIPAM.devices (ne (toString .Values.nodeIPAM.devicePlugin) "false") -}}
true
{{- end -}}
{{- end -}}
