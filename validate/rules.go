package validate

// Rules are all rules, in the order of docs/rules.md.
var Rules = []Rule{
	// What the broker refuses.
	queueNotDurable,
	argumentNotForType,
	argumentValue,
	routingKeyButNoDLX,
	reservedName,
	exchangeTypeUnknown,
	exchangeTypeNeedsPlugin,
	bindDefaultExchange,
	danglingBinding,
	headersMatchInvalid,
	localRandomKey,
	localRandomDestination,
	policyKeyUnknown,
	policyValue,
	policyApplyTo,
	policyPattern,
	policyEmpty,
	policyKeysTogether,
	policyNeedsPlugin,
	defaultExchangeNotWritable,
	parameterNeedsPlugin,

	// What it accepts and does not do.
	unknownArgument,
	argumentWithoutEffect,
	deprecatedSetting,
	unlimitedLimitBefore4,
	rejectPublishDLXOnQuorum,
	atLeastOnceIncomplete,
	atLeastOnceUnbounded,
	delayedRetryIncomplete,
	xMatchIgnoresXHeaders,
	countHeaderNeverMatches,
	headersBindingEmpty,
	bindingArgumentsIgnored,
	transientQueue,
	transientExchange,
	settingOverruled,

	// Which policy acts.
	policyMatchesNoType,
	policyIgnoredForType,
	policyPriorityTie,
	policyOverGenerated,
	policyHidden,
	policyNotAnchored,
	policiesSlow,
	policyRepeatsArguments,

	// Where published messages go.
	publishUnroutable,
	unroutableUnguarded,
	exchangeWithoutBinding,
	queueUnreachable,
	shovelEndMissing,
	shovelStreamWithoutOffset,
	federationUpstreamMissing,

	// Where messages go that fail.
	deadLetterExchangeMissing,
	deadLetterQueueMissing,
	deadLetterUnroutable,
	deadLettersToItself,
	dlxWithoutElse,
	deadLetterRouteMixed,
	alternateExchangeMissing,
	capWithoutDeadLetter,
	deadLetterWithoutCap,
	quorumDefaultLimitWithoutDLX,
	dropIsLoss,
	dropsSilently,
	rejectPublishAndDeadLetters,
	overflowNotDeadLettered,
	deadLetterAtMostOnce,
	limitIntoWaitQueue,
	ttlCycleLoses,
	rejectCycleWithoutCap,
	deadLetterTargetWithoutRole,
	deadLetterQueueWithoutOwner,
	sharedDeadLetterQueue,
	categoryRoutingNeedsQuorum,
	categoryHeaderPrefix,

	// Waiting for the next attempt.
	waitQueueExpires,
	waitQueueBounded,
	waitQueueWithoutTTL,
	waitQueueTTLShorter,
	waitQueueWithoutReturn,
	mixedDelays,

	// What counts as an attempt, and how long things stay.
	limitCountsReturns,
	nackNotCounted,
	prefetchOverLimit,
	classicCapDoesNotCountCrashes,
	messageTTLOverAYear,
	maxAgeInMonths,

	// Promises.
	notRestartSafe,
	notNodeLossSafe,
	contractNotKept,
	contractIncomplete,

	// What an upgrade changes.
	upgradeMirroredQueue,
	upgradePolicyActs,
	upgradeSettingChanges,
	upgradeDefaultDeliveryLimit,
	upgradeNackNotCounted,
	upgradeConsumerTimeout,
	upgradeDefaultQueueType,
	upgradeDelayedMessagePlugin,
	upgradeMaxAgeCompared,

	// What the others could not be sure of; the last, because it asks what they met.
	routesNotExact,
}
